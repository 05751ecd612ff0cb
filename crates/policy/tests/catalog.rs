//! Tests of the constants in the definitions that the protocol and its drivers read.

use comity_policy::definition::Definition;
use comity_policy::{Policy, Sharing};

/// The expected constants of each policy: the way of waking, whether roles are counted, the batch, the number of
/// steal-backs, and the place of an unblocked task. For a policy that shares cores also: the placement of workers,
/// the fate of a sleeper's core, `own_only`, `plain_alone`, and the quantum.
const EXPECTED: [&str; 18] = [
    "comity: Hungry, false, 8, 16, LastIfUp; Anywhere, LendsCore, false, true, 10ms",
    "plain: Hungry, false, 1, 0, Current",
    "abp: AlwaysAwake, false, 1, 0, Current",
    "delay-yield: AlwaysAwake, false, 1, 0, Current",
    "selective-yield: AlwaysAwake, false, 1, 0, Current",
    "bws: Watchdog, false, 1, 0, Current",
    "bws-busy-wakes: EveryPush { sleepers: 2 }, false, 1, 0, Current",
    "robinhood: Watchdog, false, 1, 0, Current",
    "robinhood-u: Watchdog, false, 1, 0, Current",
    "robinhood-s: Watchdog, false, 1, 0, Current",
    "wsgi: Watchdog, true, 1, 0, Current",
    "equipartition: AlwaysAwake, false, 1, 0, Current; OnePerCore, KeepsCore, true, false, 10ms",
    "dws: Hungry, false, 1, 0, Current; OnePerCore, LeavesCore, false, true, 10ms",
    "dws-nc: Hungry, false, 1, 0, Current; OnePerCore, LeavesCore, true, true, 10ms",
    "a-steal: AlwaysAwake, false, 1, 0, Current; WithinCores, KeepsCore, true, false, 2ms",
    "abp-eq: AlwaysAwake, false, 1, 0, Current; WithinCores, KeepsCore, true, false, 10ms",
    "abp-mug: AlwaysAwake, false, 1, 0, Current; WithinCores, KeepsCore, true, false, 10ms",
    "ws-last: AlwaysAwake, false, 1, 0, Last",
];

#[test]
fn each_row_of_the_catalog_has_the_constants_of_its_source() {
    assert_eq!(Policy::all().count(), EXPECTED.len());
    for (policy, expected) in Policy::all().zip(EXPECTED) {
        let definition = Definition::of(&policy);
        let (waking, counts, batch, backs) =
            (definition.waking, definition.counts_roles, definition.batch, definition.steal_backs);
        let sharing = Sharing::of(&policy).map_or(String::new(), |(sharing, quantum)| {
            let (placement, sleeper) = (sharing.placement, sharing.sleeper);
            format!("; {placement:?}, {sleeper:?}, {}, {}, {quantum:?}", sharing.own_only, sharing.plain_alone)
        });
        let found =
            format!("{}: {waking:?}, {counts}, {batch}, {backs}, {:?}{sharing}", definition.name, definition.place);
        assert_eq!(found, expected);
    }
}
