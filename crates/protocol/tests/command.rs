//! The quanta of a command, on a model of its place in the table.

mod place;

use std::time::Duration;

use comity_policy::Policy;
use comity_policy::allotment::{LINEAR, Proposal};
use comity_protocol::command::{Command, Coordination, QUANTUM};
use comity_protocol::orders::{InForce, Own};
use comity_protocol::table::Seat;
use comity_protocol::{CoreSet, Look, STOPPED_AFTER, Standing, Way};

use place::{Effect, Place, slot};

const MS: u64 = 1_000_000;

/// A command on two cores, with another program or alone.
#[derive(Default)]
struct Model {
    place: Place,
    is_alone: bool,
    /// The number of cores that were noted as lost. The field below it is the mask of the command's threads.
    lost: u32,
    places: Vec<Option<CoreSet>>,
    /// The time in ns until the command's turn begins, if it is out of turn.
    out_for: Option<u64>,
    /// The values that were passed to `close`, in order: true if the command's threads rest.
    closed: Vec<bool>,
    ways: Vec<Way>,
    /// The values of the next standing and of the next look.
    is_even: bool,
    is_grouped: Option<bool>,
    may_take_turns: bool,
    team: u32,
    is_nice: bool,
    can_rest_unseen: bool,
    /// The number of cores that it may use, minus two.
    more_cores: usize,
}

impl Model {
    fn held(&self) -> CoreSet {
        self.place.held()
    }

    /// Returns the desire that the command published in each round.
    fn desires(&self) -> Vec<u32> {
        let desire = |told: &Effect| if let Effect::Round(desire) = told { Some(*desire) } else { None };
        self.place.log.borrow().iter().filter_map(desire).collect()
    }

    fn proposals(&self) -> Vec<Proposal> {
        let proposal = |told: &Effect| if let Effect::Propose(proposal) = told { Some(*proposal) } else { None };
        self.place.log.borrow().iter().filter_map(proposal).collect()
    }

    fn waits(&self) -> bool {
        self.place.waits.get()
    }

    /// Makes the other program own and use the core.
    fn loses(&self, core: usize) {
        let word = &self.place.words[core];
        let granted = word.get().granted(Some(slot(1))).unwrap_or(word.get());
        word.set(granted.taken_back(slot(1)).or(granted.claimed(slot(1))).unwrap_or(granted));
    }

    fn loses_all(&self) {
        (0..2).for_each(|core| self.loses(core));
    }
}

impl Seat for Model {
    type View<'a> = &'a Place;

    fn view(&self) -> Option<&Place> {
        self.place.view()
    }

    fn round(&self, desire: u32, _awake: u32) -> Standing {
        self.place.note(Effect::Round(desire));
        for (core, word) in self.place.words.iter().enumerate().filter(|_| desire > 0) {
            let is_own = self.out_for.is_none() && core < desire as usize;
            let owner = if is_own { self.place.slot } else { slot(1) };
            word.set(word.get().granted(Some(owner)).unwrap_or(word.get()));
        }
        let owned = self.place.owned().len() as u32;
        Standing {
            owned,
            held: self.held().len() as u32,
            alone: self.is_alone,
            share_milli: if self.is_alone {
                2000
            } else if self.out_for.is_some() {
                500
            } else {
                1000
            },
            programs: if self.is_alone { 1 } else { 2 },
            allotted: owned,
            until_change: self.out_for,
            frame: 200 * MS,
            most_out: 200 * MS,
            is_even: self.is_even,
            is_grouped: self.is_grouped,
            may_take_turns: self.may_take_turns,
            ..Standing::default()
        }
    }

    fn correct(&self, _: u32) {}

    fn propose(&self, proposal: Proposal) {
        self.place.propose(proposal);
    }

    fn want(&self, wants: bool) {
        self.place.want(wants);
    }

    fn population(&self) -> usize {
        2
    }
}

impl Command for Model {
    type Seat = Model;

    fn seat(&self) -> &Model {
        self
    }

    fn cores(&self) -> CoreSet {
        (0..2 + self.more_cores).collect()
    }

    fn note_lost(&mut self, cores: u32) {
        self.lost += cores;
    }

    fn idle_ns(&mut self) -> Option<u64> {
        None
    }

    fn confine(&mut self, cores: Option<CoreSet>) {
        self.places.push(cores);
    }

    fn close(&mut self, closed: bool) {
        self.closed.push(closed);
    }

    fn publish(&mut self, way: Way) {
        self.ways.push(way);
    }
}

fn own(cores: Option<u32>) -> Own {
    Own { cores, ..Own::default() }
}

fn coordination(cores: Option<u32>) -> Coordination {
    Coordination::new(Policy::default().coordinator().unwrap(), own(cores), 2, 0)
}

/// Takes the next look when it is due, with `runnable` threads that run or wait for a core. Returns the time that the
/// command held cores since the last look, in ms.
fn look(coordination: &mut Coordination, model: &mut Model, used_ms: u64, runnable: u32) -> u64 {
    let now = coordination.next();
    let elapsed = now - coordination.looked();
    let waited = Duration::from_nanos(elapsed * u64::from(runnable));
    let used = Duration::from_millis(used_ms);
    let seen = Look {
        elapsed: Duration::from_nanos(elapsed),
        used,
        able: used.max(waited),
        runnable,
        team: model.team,
        is_nice: model.is_nice,
        can_rest_unseen: model.can_rest_unseen,
    };
    coordination.note(model, &seen, now);
    let looked = coordination.look(model, &seen, now);
    coordination.rest(0);
    looked.had_ns / MS
}

#[test]
fn under_equal_slowdown_it_counts_as_linear_for_what_it_gains_is_not_seen() {
    let policy: Policy = "comity:share=slowdown".parse().unwrap();
    let mut coordination = Coordination::new(policy.coordinator().unwrap(), own(None), 2, 0);
    let mut model = Model { is_alone: true, ..Model::default() };
    // The command has one thread, which computes.
    for _ in 0..40 {
        let elapsed_ms = (coordination.next() - coordination.looked()) / MS;
        look(&mut coordination, &mut model, elapsed_ms, 1);
    }
    assert_eq!(model.proposals(), [Proposal::Slowdown { efficiency: LINEAR }]);
}

#[test]
fn one_that_could_use_its_share_desires_what_its_threads_can_use_and_is_kept_on_it() {
    for (cores, runnable, desire) in [(None, 1, 1), (None, 5, 2), (Some(2), 1, 2)] {
        let (mut coordination, mut model) = (coordination(cores), Model::default());
        assert_eq!(look(&mut coordination, &mut model, 10, runnable), 0);
        assert_eq!(model.desires(), [0, desire], "the table hears it at once");
        assert_eq!(
            (model.held(), model.places.last()),
            (model.place.owned(), Some(&None)),
            "it may just start a process"
        );
        assert_eq!(look(&mut coordination, &mut model, 10, runnable), 10 * u64::from(desire));
        let place = (runnable > desire).then_some(model.place.owned());
        assert_eq!(model.places.last(), Some(&place), "one that fits counts all cores");
    }
}

#[test]
fn one_that_does_nothing_holds_nothing_and_is_looked_at_less_often() {
    let (mut coordination, mut model) = (coordination(None), Model::default());
    look(&mut coordination, &mut model, 10, 2);
    assert_eq!(model.held().len(), 2);
    // The command keeps its cores for eight looks, because it may need them again.
    let had: u64 = (0..8).map(|_| look(&mut coordination, &mut model, 0, 0)).sum();
    assert_eq!(had, 40, "for two quanta, as the next two looks say that it does nothing");
    assert_eq!((model.desires().last(), model.held(), model.places.last()), (Some(&0), CoreSet::EMPTY, Some(&None)));
    assert_eq!(coordination.next() - coordination.looked(), 100 * MS);
}

#[test]
fn one_that_is_alone_runs_where_it_likes_until_its_bell_says_otherwise() {
    let mut model = Model { is_alone: true, ..Model::default() };
    let mut coordination = coordination(None);
    look(&mut coordination, &mut model, 20, 2);
    assert_eq!((model.held().len(), model.places.last()), (2, Some(&None)));
    look(&mut coordination, &mut model, 20, 2);
    let (looked, quantum) = (coordination.looked(), QUANTUM.as_nanos() as u64);
    assert!(coordination.next() > looked + quantum, "it is looked at less often while nothing changes");
    // Another program has joined and taken a core back.
    model.is_alone = false;
    model.loses(1);
    coordination.rung(&mut model, looked + MS);
    assert_eq!((model.lost, coordination.next()), (1, looked + quantum));
    coordination.rung(&mut model, looked + 2 * MS);
    assert_eq!((model.lost, coordination.next()), (1, looked + quantum));
    assert_eq!(look(&mut coordination, &mut model, 10, 3), 11, "two cores for 1 ms, and one for 9");
    look(&mut coordination, &mut model, 20, 3);
    assert_eq!(model.places.last(), Some(&Some(model.held())));
}

#[test]
fn cores_that_it_may_no_longer_use_are_not_lost() {
    let (mut coordination, mut model) = (coordination(None), Model::default());
    look(&mut coordination, &mut model, 20, 2);
    model.loses(1);
    coordination.has_let_go(model.held());
    coordination.limit(1);
    look(&mut coordination, &mut model, 10, 2);
    assert_eq!((model.lost, model.desires().last()), (0, Some(&1)));
}

#[test]
fn what_is_asked_from_outside_bounds_it_and_a_paused_one_holds_nothing() {
    let (mut coordination, mut model) = (coordination(Some(2)), Model { is_alone: true, ..Model::default() });
    look(&mut coordination, &mut model, 20, 2);
    assert_eq!((model.desires().last(), model.places.last()), (Some(&2), Some(&None)));
    let told = InForce::of(own(Some(1)));
    let now = coordination.looked() + MS;
    coordination.obey(told, now);
    assert_eq!(coordination.next(), now, "what is new is looked at at once");
    look(&mut coordination, &mut model, 20, 2);
    assert_eq!((model.desires().last(), model.held().len()), (Some(&1), 1));
    assert_eq!(model.places.last(), Some(&Some(model.held())), "alone, and bound all the same");
    let now = coordination.looked() + MS;
    coordination.obey(InForce { paused_until: Some(now + 1000 * MS), ..told }, now);
    coordination.pause(&mut model, now);
    let limit: CoreSet = [0].into_iter().collect();
    assert_eq!(
        (model.desires().last(), model.held(), model.places.last()),
        (Some(&0), CoreSet::EMPTY, Some(&Some(limit)))
    );
    let later = now + 1000 * MS;
    coordination.obey(told, later);
    coordination.go_on(later);
    assert_eq!((coordination.looked(), coordination.next()), (later, later + QUANTUM.as_nanos() as u64));
    assert_eq!(look(&mut coordination, &mut model, 10, 2), 0, "it held nothing meanwhile");
    assert_eq!((model.desires().last(), model.held().len()), (Some(&1), 1));
}

#[test]
fn looks_take_a_small_part_of_a_core_and_are_never_so_rare_that_it_counts_as_stopped() {
    let (mut coordination, mut model) = (coordination(None), Model::default());
    let mut after = |spent_us: u64| {
        look(&mut coordination, &mut model, 20, 2);
        coordination.rest(spent_us * 1000);
        (coordination.next() - coordination.looked()) / MS
    };
    assert_eq!([after(10), after(1_000), after(60_000)], [10, 150, STOPPED_AFTER.as_millis() as u64 / 2]);
}

#[test]
fn one_that_is_out_of_turn_rests_until_its_turn_begins_and_that_says_nothing_of_what_it_could_use() {
    let (mut coordination, mut model) = (coordination(None), Model::default());
    look(&mut coordination, &mut model, 20, 2);
    assert_eq!((model.held().len(), model.closed.last()), (2, Some(&false)));
    // Other programs take its cores back.
    model.out_for = Some(53 * MS);
    model.loses_all();
    let lost_at = coordination.looked() + MS;
    coordination.rung(&mut model, lost_at);
    assert_eq!((model.lost, coordination.next()), (2, lost_at), "it is looked at at once");
    look(&mut coordination, &mut model, 2, 2);
    assert_eq!((model.closed.last(), model.waits()), (Some(&true), true));
    coordination.rest(u64::MAX);
    assert_eq!(coordination.next(), lost_at + 53 * MS, "however long a look takes");
    for left in (1..=10).rev() {
        model.out_for = Some(left * MS);
        look(&mut coordination, &mut model, 0, 0);
        assert_eq!(model.closed.last(), Some(&true));
    }
    model.out_for = None;
    look(&mut coordination, &mut model, 0, 0);
    assert_eq!((model.desires().last(), model.held().len()), (Some(&2), 2), "it desires what it did");
    assert_eq!((model.closed.last(), model.waits()), (Some(&false), false));
}

#[test]
fn what_the_system_divides_as_it_should_holds_nothing_and_is_never_stopped() {
    let even = Model { is_even: true, ..Model::default() };
    let grouped = Model { is_grouped: Some(true), ..Model::default() };
    let team = Model { team: 2, ..Model::default() };
    let nice = Model { is_nice: true, ..Model::default() };
    let models = [(even, Way::Even, 2), (grouped, Way::Group, 2), (team, Way::Team, 1), (nice, Way::Nice, 1)];
    for (mut model, way, looks) in models {
        let mut coordination = coordination(None);
        model.out_for = Some(100 * MS);
        for _ in 0..looks {
            look(&mut coordination, &mut model, 10, 2);
        }
        assert_eq!((model.ways.last(), model.desires().last(), model.held()), (Some(&way), Some(&0), CoreSet::EMPTY));
        assert_eq!((model.closed.last(), model.places.last()), (Some(&false), Some(&None)), "{way:?}");
        if way == Way::Group {
            model.is_grouped = None;
            look(&mut coordination, &mut model, 10, 2);
            assert_eq!(model.ways.last(), Some(&way), "it stays so while others pause");
        }
        // The reason for the way ends.
        (model.is_even, model.is_grouped, model.team, model.is_nice) = (false, Some(false), 0, false);
        model.out_for = None;
        while model.ways.last() != Some(&Way::Cores) {
            look(&mut coordination, &mut model, 10, 2);
        }
        look(&mut coordination, &mut model, 10, 2);
        assert_eq!(model.held().len(), 2);
    }
}

#[test]
fn a_team_takes_turns_if_all_programs_can_and_it_could_use_all_cores_and_rests_unseen() {
    let all = || Model { team: 2, may_take_turns: true, can_rest_unseen: true, ..Model::default() };
    let ways = |cores: Option<u32>, mut model: Model, runnable: u32| {
        let mut coordination = coordination(cores);
        for _ in 0..2 {
            look(&mut coordination, &mut model, 20, runnable);
        }
        (model.ways.last().copied(), model.desires().last().copied(), model.proposals().last().copied())
    };
    let together = Some(Proposal::Together);
    assert_eq!(ways(None, all(), 2), (Some(Way::Turns), Some(2), together));
    let grouped = Model { is_grouped: Some(true), ..all() };
    assert_eq!(ways(None, grouped, 2), (Some(Way::Turns), Some(2), together));
    let is_left = |(way, desire, proposal)| way == Some(Way::Team) && desire == Some(0) && proposal != together;
    assert!(is_left(ways(None, Model { may_take_turns: false, ..all() }, 2)));
    assert!(is_left(ways(None, Model { can_rest_unseen: false, ..all() }, 2)));
    assert!(is_left(ways(Some(2), all(), 2)), "a limit of its own");
    assert!(is_left(ways(None, Model { more_cores: 1, ..all() }, 2)), "a core would idle in its turn");
    // Another program can no longer use all cores.
    let (mut coordination, mut model) = (self::coordination(None), all());
    for (may_take_turns, way) in [(true, Way::Team), (false, Way::Turns), (false, Way::Team)] {
        model.may_take_turns = may_take_turns;
        look(&mut coordination, &mut model, 20, 2);
        assert_eq!(model.ways.last(), Some(&way));
        // Another program that needs a core again has taken it back before the next look.
        model.loses(1);
        let now = coordination.looked() + MS;
        coordination.rung(&mut model, now);
        assert_eq!(model.places.last(), Some(&None), "a team is never masked");
    }
}

#[test]
fn a_limit_holds_alone_and_where_the_system_divides() {
    let (mut coordination, mut model) = (coordination(Some(1)), Model { is_alone: true, ..Model::default() });
    look(&mut coordination, &mut model, 10, 1);
    assert_eq!(model.places.last(), Some(&None), "it has no more threads than cores");
    look(&mut coordination, &mut model, 10, 2);
    assert_eq!(model.places.last(), Some(&Some(model.held())));
    model.team = 2;
    look(&mut coordination, &mut model, 10, 2);
    assert_eq!((model.held(), model.places.last()), (CoreSet::EMPTY, Some(&Some([0].into_iter().collect()))));
}

#[test]
fn one_that_is_out_of_turn_runs_on_a_core_that_stays_free_until_that_is_taken_back() {
    let (mut coordination, mut model) = (coordination(None), Model::default());
    look(&mut coordination, &mut model, 20, 2);
    look(&mut coordination, &mut model, 20, 2);
    model.out_for = Some(100 * MS);
    model.loses_all();
    look(&mut coordination, &mut model, 20, 2);
    assert_eq!((model.held(), model.closed.last()), (CoreSet::EMPTY, Some(&true)));
    let told_at = coordination.looked() + MS;
    model.place.change(|word| word.released(slot(1))).unwrap();
    model.place.lend_after.set(MS);
    coordination.rung(&mut model, told_at);
    assert_eq!((model.closed.last(), coordination.next()), (Some(&true), told_at + MS), "it may be taken back at once");
    model.place.lend_after.set(0);
    coordination.rung(&mut model, told_at + MS);
    let borrowed: CoreSet = [0].into_iter().collect();
    assert_eq!(
        (model.held(), model.closed.last(), model.places.last()),
        (borrowed, Some(&false), Some(&Some(borrowed)))
    );
    look(&mut coordination, &mut model, 8, 1);
    assert_eq!(model.held(), borrowed, "though it is not its own");
    model.loses(0);
    let taken_at = coordination.looked() + MS;
    coordination.rung(&mut model, taken_at);
    look(&mut coordination, &mut model, 0, 0);
    assert_eq!(model.closed.last(), Some(&true));
}
