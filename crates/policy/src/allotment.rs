//! Allotments: how many cores each program may use, computed from each program's weight and desire (the number of
//! cores that it requests).

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

/// The claim of one party to cores. A party is a program, or one pool of a program with several pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The program of the party. The parties of one program share the cores that the program gets.
    pub program: u64,
    /// Weight of the party, 1 or more. The weight of a program is the largest weight of its parties, and at least a
    /// hundredth of the mean weight of all programs.
    pub weight: u32,
    /// The number of cores that the party can use.
    pub desire: u32,
}

/// A program's proposal for dividing the cores. If all programs propose the same division, that division is used.
/// Otherwise shares are equal. Exception: if all programs can take turns, one [`Proposal::Together`] decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proposal {
    /// Equal parts of the processor time.
    #[default]
    Equal,
    /// Parts of the processor time by which all programs are slowed down equally.
    Slowdown {
        /// The efficiency, in thousandths, within [`EFFICIENCIES`]: (speed alone on all N cores) / (N · speed per core
        /// in its share).
        efficiency: u32,
    },
    /// All cores, for each program in turn.
    Time,
    /// All cores, for each program in turn, whatever other programs propose. It takes effect only if all programs can
    /// take turns (see [`Division::among`]). A team of threads that may wait for each other proposes this. With fewer
    /// cores than threads, a running thread would wait for a thread that has no core (Ousterhout, ICDCS 1982).
    Together,
}

/// The range of efficiencies that a program may publish, in thousandths. It bounds the effect of any published value:
/// each program gets between half and twice its equal part. A program gets half or twice its part only if it publishes
/// one end of the range and all other programs the other end.
pub const EFFICIENCIES: RangeInclusive<u32> = 500..=LINEAR;

/// The efficiency of a program with linear speedup, in thousandths: on all N cores it is N times as fast as on one.
pub const LINEAR: u32 = 1000;

impl Proposal {
    /// Encodes the proposal as a word that other programs read.
    pub fn to_bits(self) -> u32 {
        match self {
            Proposal::Equal => 0,
            Proposal::Time => 1,
            Proposal::Together => 2,
            Proposal::Slowdown { efficiency } => efficiency.clamp(*EFFICIENCIES.start(), *EFFICIENCIES.end()),
        }
    }

    /// Decodes a word of [`Proposal::to_bits`]. Every word is valid: a word above 2 is an efficiency.
    pub fn from_bits(bits: u32) -> Proposal {
        match bits {
            0 => Proposal::Equal,
            1 => Proposal::Time,
            2 => Proposal::Together,
            efficiency => {
                Proposal::Slowdown { efficiency: efficiency.clamp(*EFFICIENCIES.start(), *EFFICIENCIES.end()) }
            }
        }
    }

    /// Returns the factor by which `division` multiplies the weight of a program with this proposal, in thousandths.
    pub fn factor(self, division: Division) -> u32 {
        match (division, self) {
            (Division::Slowdown, Proposal::Slowdown { efficiency }) => efficiency,
            _ => LINEAR,
        }
    }
}

/// The rule by which shares are divided among programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Division {
    /// Each program gets cores in proportion to its weight.
    #[default]
    Equal,
    /// Each program gets cores in proportion to its weight times its efficiency.
    Slowdown,
    /// Each program gets all cores for a part of the time, in proportion to its weight.
    Time,
}

/// The number of programs per core from which programs are a crowd. No program of a crowd could keep a core for long,
/// so all of them share time.
pub const CROWD: u32 = 4;

/// The largest difference of efficiencies, in thousandths, that is ignored. Cores would change owners for a small
/// gain.
const ALIKE: u32 = 50;

impl Division {
    /// Returns the division in the frames between two probes, for programs with these proposals. In a probe, programs
    /// measure their speed on all cores. If all efficiencies are nearly equal, shares are equal.
    pub fn beside_probes(self, proposals: impl IntoIterator<Item = Proposal>) -> Division {
        let efficiencies = proposals.into_iter().map(|proposal| proposal.factor(self));
        let (least, most) = efficiencies.fold((u32::MAX, 0), |(least, most), one| (least.min(one), most.max(one)));
        let is_alike = self == Division::Slowdown && most.saturating_sub(least) <= ALIKE;
        if is_alike { Division::Equal } else { self }
    }

    /// Returns how many cores a program can use, for the computation of shares. If programs have all cores in turn,
    /// this is its desire. Otherwise it is `may_use`, because the desire is unknown while a program holds no core.
    pub fn could_use(self, desire: u32, may_use: u32) -> u32 {
        if self == Division::Time && desire > 0 { desire.min(may_use) } else { may_use }
    }

    /// Returns the division among programs with these proposals. `None` is a program of an earlier build, which
    /// supports equal parts only. `can_take_turns` is true if each program halts at once when its turn ends, and can
    /// use all cores in its turn.
    pub fn among(proposals: impl IntoIterator<Item = Option<Proposal>>, can_take_turns: bool) -> Division {
        let mut needs_turns = false;
        let mut divisions = proposals.into_iter().map(|proposal| match proposal.unwrap_or_default() {
            Proposal::Slowdown { .. } => Division::Slowdown,
            Proposal::Time => Division::Time,
            Proposal::Together => {
                needs_turns = true;
                Division::Equal
            }
            Proposal::Equal => Division::Equal,
        });
        let first = divisions.next().unwrap_or(Division::Equal);
        let are_alike = divisions.fold(true, |are_alike, division| are_alike & (division == first));
        match needs_turns && can_take_turns {
            true => Division::Time,
            false if are_alike => first,
            false => Division::Equal,
        }
    }
}

/// Dynamic equipartitioning (McCann, Vaswani and Zahorjan, ACM TOCS 1993; A-STEAL §3). Every program gets a share of
/// `cores` in proportion to its weight, but at most its desire. If a share exceeds the program's desire, the excess is
/// divided among the other programs. A program divides its share among its parties in the same way. Returns one number
/// of cores per claim, in the order of `claims`.
///
/// The result is in whole cores, and changes over time: a program that is entitled to 2.3 cores gets 3 cores for 0.3
/// of each frame (its *turn*), and 2 cores otherwise. `phase` is the elapsed part of the frame, in units of 2⁻⁶⁴.
pub fn deq(cores: u32, claims: &[Claim], phase: u64) -> Vec<u32> {
    deq_in_turn(cores, claims, phase).into_iter().map(|allotted| allotted.cores).collect()
}

/// Gang scheduling (Ousterhout, ICDCS 1982) by weight: in a frame each program has one turn. In its turn a program
/// gets `min(cores, desire)` cores, which are divided among its parties as [`deq`] does. The other cores are left
/// over.
pub fn gangs_in_turn(cores: u32, claims: &[Claim], phase: u64) -> Vec<Allotted> {
    in_turn(cores, claims, phase, gang)
}

/// Returns each party's mean number of cores over whole frames, in thousandths of a core. It is the mean under
/// [`deq_in_turn`] or [`gangs_in_turn`]. With [`gangs_in_turn`], the cores that a program leaves in its turn are
/// divided among the others as by [`deq`].
pub fn due_milli(division: Division, cores: u32, claims: &[Claim]) -> Vec<u32> {
    let in_milli = |claim: &Claim| Claim { desire: claim.desire.min(cores) * 1000, ..*claim };
    let claims: Vec<Claim> = claims.iter().map(in_milli).collect();
    let divide = if division == Division::Time { time_of_turns } else { fill };
    in_turn(cores * 1000, &claims, 0, divide).into_iter().map(|allotted| allotted.cores).collect()
}

/// The cores of a party at one time of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allotted {
    /// The number of whole cores.
    pub cores: u32,
    /// The time until the next turn of the party begins or ends, in units of 2⁻⁶⁴ of a frame. Under [`deq_in_turn`],
    /// the party has one more core in its turn. Under [`gangs_in_turn`], the party's program has all cores in its
    /// turn. `None`: the party's cores never change.
    pub until_change: Option<u64>,
}

/// Divides cores as [`deq`] does, and returns the times of the turns too.
pub fn deq_in_turn(cores: u32, claims: &[Claim], phase: u64) -> Vec<Allotted> {
    in_turn(cores, claims, phase, fill)
}

/// Divides cores among programs, and each program's cores among its parties. Returns the cores of each party, program
/// by program, and the time until a turn of the party begins or ends.
type Divide = fn(u64, &[Vec<Party>], u64) -> Vec<(u64, Option<u64>)>;

/// Returns what each claim gets if `divide` divides all cores among the programs and their parties.
fn in_turn(cores: u32, claims: &[Claim], phase: u64, divide: Divide) -> Vec<Allotted> {
    // The parties of each program, and the programs in the order of their first parties.
    let mut sorted: Vec<usize> = (0..claims.len()).collect();
    sorted.sort_by_key(|nth| claims[*nth].program);
    let mut programs: Vec<&[usize]> =
        sorted.chunk_by(|one, other| claims[*one].program == claims[*other].program).collect();
    programs.sort_by_key(|parties| parties[0]);
    let party = |nth: &usize| Party {
        weight: claims[*nth].weight.max(1).into(),
        desire: claims[*nth].desire.min(cores).into(),
    };
    let mut parties: Vec<Vec<Party>> = programs.iter().map(|program| program.iter().map(party).collect()).collect();
    raise_small_weights(&mut parties);
    let mut allotments = vec![Allotted { cores: 0, until_change: None }; claims.len()];
    let given = divide(cores.into(), &parties, phase);
    for (nth, (cores, until_change)) in programs.into_iter().flatten().zip(given) {
        let cores = u32::try_from(cores).expect("no party gets more than it desires");
        allotments[*nth] = Allotted { cores, until_change };
    }
    allotments
}

/// The divisor of the smallest weight: a program has at least a hundredth of the mean weight of the programs with a
/// desire. With 100 ms of frame per program, such a program has a turn of one millisecond per core in each frame. The
/// program's coordinator can notice a turn of this length. If it never noticed a turn, it would conclude that its
/// program has no turns, and the program would run all the time.
const SMALLEST: u64 = 100;

fn raise_small_weights(programs: &mut [Vec<Party>]) {
    let together = || programs.iter().map(|parties| Party::of(parties)).filter(|program| program.desire > 0);
    let mean = together().map(|program| program.weight).sum::<u64>() / (together().count() as u64).max(1);
    for party in programs.iter_mut().flatten() {
        party.weight = party.weight.max(mean / SMALLEST);
    }
}

/// Returns a phase for each of many successive turns. The phases are scattered so that after a few turns each party
/// has had its fraction.
pub fn scattered(turn: u64) -> u64 {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    turn.wrapping_mul(GOLDEN_RATIO)
}

#[derive(Clone, Copy)]
struct Party {
    weight: u64,
    desire: u64,
}

impl Party {
    /// Merges the parties of a program into one party.
    fn of(parties: &[Party]) -> Party {
        Party {
            weight: parties.iter().map(|party| party.weight).max().unwrap_or(1),
            desire: parties.iter().map(|party| party.desire).sum(),
        }
    }

    /// The length of the party's turn, in proportion to other turns: its weight, or 0 without a desire.
    fn turn(&self) -> u64 {
        if self.desire > 0 { self.weight } else { 0 }
    }
}

/// The number of parts into which a core is divided is a multiple of this, so that parties of equal weight get equal
/// parts of any share.
const FINE: u128 = 1 << 10;

/// Gives each party whose desire is at most its share of `left` all of its desire. Every other party gets `None`. Also
/// returns the rest of `left`, and the total weight of the parties with `None`. Amounts are in parts of a core; a core
/// has `parts` parts.
fn sate(mut left: u128, parties: &[Party], parts: u128) -> (Vec<Option<u128>>, u128, u128) {
    let desire = |nth: &usize| u128::from(parties[*nth].desire) * parts;
    let weight = |nth: &usize| u128::from(parties[*nth].weight);
    let mut given = vec![Some(0); parties.len()];
    let mut open: Vec<usize> = (0..parties.len()).filter(|nth| parties[*nth].desire > 0).collect();
    let mut total: u128 = open.iter().map(weight).sum();
    // A party with a desire below its share gets its desire. The shares of the other parties grow by the rest.
    loop {
        let (sated, hungry): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|nth| desire(nth) * total <= left * weight(nth));
        open = hungry;
        for nth in &sated {
            given[*nth] = Some(desire(nth));
            left -= desire(nth);
        }
        total = open.iter().map(weight).sum();
        if sated.is_empty() || open.is_empty() {
            break;
        }
    }
    open.into_iter().for_each(|nth| given[nth] = None);
    (given, left, total)
}

/// Divides cores as [`deq`] does. Returns the cores of each party, and the time until its next turn begins or ends.
fn fill(cores: u64, programs: &[Vec<Party>], phase: u64) -> Vec<(u64, Option<u64>)> {
    let together: Vec<Party> = programs.iter().map(|parties| Party::of(parties)).collect();
    let (sated, left, total) = sate(cores.into(), &together, 1);
    // The share of each party over a frame, in parts of a core.
    let core = total.max(1) * FINE;
    let mut shares = Vec::new();
    for ((parties, program), sated) in programs.iter().zip(together).zip(sated) {
        let share = sated.map_or(left * u128::from(program.weight) * FINE, |cores| cores * core);
        let (sated, mut left, mut total) = sate(share, parties, core);
        shares.extend(parties.iter().zip(sated).map(|(party, sated)| {
            sated.unwrap_or_else(|| {
                // The last party gets the remainder.
                let share = left * u128::from(party.weight) / total;
                (left, total) = (left - share, total - u128::from(party.weight));
                share
            })
        }));
    }
    // McNaughton's wrap-around rule (Management Science 1959). The fractional parts, laid end to end, have the length
    // of the remaining whole cores. Cut into pieces of length one, they are the schedules of these cores in a frame.
    // At each time of the frame, one mark per piece, at the same place in each piece, points to the party that has its
    // turn. A fraction is shorter than a piece, so no party has two marks.
    let first = (u128::from(phase) * core) >> 64;
    let marks_before = |length: u128| if length > first { (length - first - 1) / core + 1 } else { 0 };
    let mut length = 0;
    let turn = |share: u128| {
        let (whole, fraction) = (share / core, share % core);
        let before = marks_before(length);
        let begins = at(length % core, core);
        length += fraction;
        let until_change = (fraction > 0).then(|| until_either([begins, at(length % core, core)], phase));
        ((whole + marks_before(length) - before) as u64, until_change)
    };
    shares.into_iter().map(turn).collect()
}

/// Returns the time after `part` of the `all` parts of a frame, in units of 2⁻⁶⁴.
fn at(part: u128, all: u128) -> u64 {
    (part << 64).div_ceil(all) as u64
}

/// Returns the time until the earlier of two times of a frame. A time equal to `phase` counts as a whole frame away.
fn until_either(times: [u64; 2], phase: u64) -> u64 {
    let until = |time: u64| if time == phase { u64::MAX } else { time.wrapping_sub(phase) };
    times.map(until).into_iter().min().expect("there are two")
}

/// Gives the program that has its turn the number of cores that it requests. Its parties divide these cores over the
/// turn.
fn gang(cores: u64, programs: &[Vec<Party>], phase: u64) -> Vec<(u64, Option<u64>)> {
    let turns: Vec<u128> = programs.iter().map(|parties| Party::of(parties).turn().into()).collect();
    let total: u128 = turns.iter().sum();
    let now = u128::from(phase) * total;
    let mut end = 0;
    let turn = |(parties, length): (&Vec<Party>, u128)| {
        let begin = end;
        end += length;
        let is_alone = length == total;
        let times = || [begin, end].map(|time| at(time % total, total));
        let until_change = (length > 0 && !is_alone).then(|| until_either(times(), phase));
        let is_in_turn = (begin..end).contains(&(now >> 64));
        let within = if is_in_turn { ((now - (begin << 64)) / length) as u64 } else { 0 };
        let given = fill(if is_in_turn { cores } else { 0 }, core::slice::from_ref(parties), within);
        given.into_iter().map(move |(cores, _)| (cores, until_change))
    };
    programs.iter().zip(turns).flat_map(turn).collect()
}

/// Returns the mean cores of each party: the cores that it has in its program's turns, plus its part of the cores that
/// other programs leave in their turns.
fn time_of_turns(cores: u64, programs: &[Vec<Party>], _: u64) -> Vec<(u64, Option<u64>)> {
    let together: Vec<Party> = programs.iter().map(|parties| Party::of(parties)).collect();
    let total: u64 = together.iter().map(Party::turn).sum();
    let mut given = vec![0; programs.len()];
    for (nth, party) in together.iter().enumerate().filter(|(_, party)| party.desire > 0) {
        let own = party.desire.min(cores);
        let mut in_turn = vec![(0, None); programs.len()];
        if own < cores {
            let mut others: Vec<Vec<Party>> = together.iter().map(|party| vec![*party]).collect();
            others[nth][0].desire = 0;
            in_turn = fill(cores - own, &others, 0);
        }
        in_turn[nth].0 = own;
        for (given, (cores, _)) in given.iter_mut().zip(in_turn) {
            *given += cores * party.turn() / total;
        }
    }
    let parties = programs.iter().zip(given);
    parties.flat_map(|(parties, given)| fill(given, core::slice::from_ref(parties), 0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(desires: &[(u32, u32)]) -> Vec<Claim> {
        let claim = |(program, (weight, desire)): (usize, &(u32, u32))| Claim {
            program: program as u64,
            weight: *weight,
            desire: *desire,
        };
        desires.iter().enumerate().map(claim).collect()
    }

    #[test]
    fn shares_are_equal_and_none_exceeds_its_desire() {
        let allot = |cores, desires: &[u32]| {
            let desires: Vec<(u32, u32)> = desires.iter().map(|desire| (100, *desire)).collect();
            deq(cores, &programs(&desires), 0)
        };
        assert_eq!(allot(16, &[16, 16]), [8, 8]);
        assert_eq!(allot(16, &[2, 16]), [2, 14]);
        assert_eq!(allot(16, &[2, 3, 16]), [2, 3, 11]);
        assert_eq!(allot(16, &[2, 4, 16, 16]), [2, 4, 5, 5]);
        assert_eq!(allot(16, &[1, 1]), [1, 1]);
        assert_eq!(allot(16, &[0, 16, 0]), [0, 16, 0]);
        assert_eq!(allot(2, &[]), [0u32; 0]);
        assert_eq!(allot(0, &[4, 4]), [0, 0]);
    }

    #[test]
    fn weights_are_proportions() {
        assert_eq!(deq(16, &programs(&[(300, 16), (100, 16)]), 0), [12, 4]);
        assert_eq!(deq(16, &programs(&[(300, 8), (100, 16)]), 0), [8, 8]);
    }

    #[test]
    fn a_program_gets_one_share_however_many_pools_it_has() {
        let claim = |program, desire| Claim { program, weight: 100, desire };
        assert_eq!(deq(16, &[claim(7, 16), claim(9, 16), claim(7, 16)], 0), [4, 8, 4]);
        assert_eq!(deq(16, &[claim(7, 16), claim(9, 16), claim(7, 1)], 0), [7, 8, 1]);
    }

    #[test]
    fn parties_of_equal_weight_get_equal_parts_of_what_their_program_gets() {
        let claims = |programs: &[u64]| -> Vec<Claim> {
            programs.iter().map(|program| Claim { program: *program, weight: 1, desire: 2 }).collect()
        };
        for (programs, division, due) in [
            (vec![7, 7, 9], Division::Equal, vec![500, 500, 1000]),
            // Each program is entitled to less than a core.
            (vec![7, 8, 7, 9], Division::Equal, vec![333, 667, 333, 667]),
            (vec![7, 7, 7, 9], Division::Time, vec![333, 333, 333, 1000]),
        ] {
            const LOOKS: u64 = 3000;
            let (claims, mut had) = (claims(&programs), vec![0; programs.len()]);
            let at = if division == Division::Time { gangs_in_turn } else { deq_in_turn };
            for look in 0..LOOKS {
                let allotted = at(2, &claims, u64::MAX / LOOKS * look);
                assert_eq!(allotted.iter().map(|allotted| allotted.cores).sum::<u32>(), 2);
                had.iter_mut().zip(allotted).for_each(|(had, allotted)| *had += u64::from(allotted.cores));
            }
            let near = |(had, due): (&u64, &u32)| (had * 1000 / LOOKS).abs_diff((*due).into()) <= 4;
            assert!(had.iter().zip(&due).all(near), "{had:?} in {LOOKS} looks, due {due:?}");
            let milli = due_milli(division, 2, &claims);
            assert!(milli.iter().zip(&due).all(|(milli, due)| milli.abs_diff(*due) <= 1), "{milli:?}, due {due:?}");
        }
    }

    #[test]
    fn what_each_is_due_is_what_it_has_over_a_frame() {
        let desires = programs(&[(100, 4), (100, 1), (300, 8), (50, 0)]);
        const LOOKS: u64 = 6000;
        let mut had = vec![0; desires.len()];
        for look in 0..LOOKS {
            let allotted = deq(6, &desires, u64::MAX / LOOKS * look);
            had.iter_mut().zip(allotted).for_each(|(had, allotted)| *had += u64::from(allotted));
        }
        let due = due_milli(Division::Equal, 6, &desires);
        let near = |(had, due): (&u64, &u32)| (had * 1000 / LOOKS).abs_diff((*due).into()) <= 2;
        assert!(had.iter().zip(&due).all(near), "{had:?} in {LOOKS} looks, due {due:?}");
        // Turns of 0.2, 0.2 and 0.6 of a frame, in which 2, 5 and 0 cores are left to the other programs.
        assert_eq!(due_milli(Division::Time, 6, &desires), [1050, 300, 4650, 0]);
        assert_eq!(due_milli(Division::Time, 2, &programs(&[(100, 2), (100, 1)])), [1500, 500]);
        assert_eq!(due_milli(Division::Time, 2, &programs(&[(100, 1), (100, 1)])), [1000, 1000]);
        assert_eq!(due_milli(Division::Equal, 2, &programs(&[(100, 2), (100, 1)])), [1000, 1000]);
        // A desire may be any word, because the program writes it.
        let greedy = programs(&[(u32::MAX, u32::MAX), (u32::MAX, u32::MAX)]);
        assert_eq!(
            [Division::Equal, Division::Time].map(|division| due_milli(division, 2, &greedy)),
            [[1000, 1000]; 2]
        );
    }

    #[test]
    fn scattered_turns_are_in_proportion() {
        for (cores, desires) in [
            (2, programs(&[(100, 2), (100, 2), (100, 2)])),
            (16, programs(&[(100, 16), (100, 16), (100, 16)])),
            (2, programs(&[(100, 2); 64])),
            (8, programs(&[(300, 8), (100, 8), (50, 8), (1, 8)])),
        ] {
            const TURNS: u64 = 4096;
            let total: u32 = desires.iter().map(|claim| claim.weight).sum();
            let mut sums = vec![0u64; desires.len()];
            for turn in 0..TURNS {
                let allotments = deq(cores, &desires, scattered(turn));
                assert_eq!(allotments.iter().sum::<u32>(), cores);
                for (sum, allotment) in sums.iter_mut().zip(allotments) {
                    *sum += u64::from(allotment);
                }
            }
            for (claim, sum) in desires.iter().zip(sums) {
                let entitled = f64::from(cores) * f64::from(claim.weight) / f64::from(total);
                let had = sum as f64 / TURNS as f64;
                assert!((had - entitled).abs() < 0.02, "{had} of {entitled}");
            }
        }
    }

    #[test]
    fn in_a_frame_each_program_has_one_turn_as_long_as_its_fraction() {
        for (cores, desires) in [
            (2, programs(&[(100, 2), (100, 2), (100, 2)])),
            (2, programs(&[(1, 2), (100, 2)])),
            (16, programs(&[(100, 16), (200, 16), (70, 2), (300, 16)])),
            (2, programs(&[(100, 2); 64])),
            (128, programs(&[(10_000, 128), (1, 128), (3, 1), (500, 100)])),
        ] {
            const STEPS: u64 = 10_000;
            let milli = |claim: &Claim| Claim { desire: claim.desire * 1000, ..*claim };
            let entitled = deq(cores * 1000, &desires.iter().map(milli).collect::<Vec<_>>(), 0);
            let at: Vec<Vec<Allotted>> =
                (0..STEPS).map(|step| deq_in_turn(cores, &desires, u64::MAX / STEPS * step)).collect();
            for (nth, entitled) in entitled.into_iter().enumerate() {
                let has: Vec<u32> = at.iter().map(|allotted| allotted[nth].cores).collect();
                let average = has.iter().map(|cores| u64::from(*cores)).sum::<u64>() as f64 / STEPS as f64;
                assert!((average - f64::from(entitled) / 1000.0).abs() < 0.002, "{average} of {entitled}");
                let turns = (0..has.len()).filter(|step| has[*step] > has[(step + has.len() - 1) % has.len()]).count();
                assert!(turns <= 1 && has.iter().max().unwrap() - has.iter().min().unwrap() <= 1, "{has:?}");
                let Some(until_change) = at[0][nth].until_change else {
                    assert!(turns == 0 && entitled % 1000 == 0, "all of it is lasting");
                    continue;
                };
                let after = (until_change / (u64::MAX / STEPS) + 1) as usize;
                let around = [after + has.len() - 2, after].map(|step| has[step % has.len()]);
                let is_short = average.fract().min(1.0 - average.fract()) < 0.001;
                assert!(around[0] != around[1] || is_short, "{until_change}: {has:?}");
            }
        }
    }

    #[test]
    fn the_lightest_program_has_a_turn_that_its_coordinator_can_see() {
        for (cores, weights) in [(2, [10_000, 1]), (1, [u32::MAX, 1]), (16, [1_000_000, 1])] {
            let desires = programs(&weights.map(|weight| (weight, cores)));
            let frame_us = 200_000_u128;
            let us = |phase: u64| (u128::from(phase) * frame_us) >> 64;
            let mut turn_us = 0;
            for step in 0..2000 {
                let allotted = deq_in_turn(cores, &desires, u64::MAX / 2000 * step);
                let until_change = us(allotted[1].until_change.expect("it has a turn"));
                turn_us = turn_us.max(if allotted[1].cores > 0 { until_change } else { 0 });
            }
            assert!(turn_us > 800 * u128::from(cores), "{turn_us} µs of {frame_us} on {cores} cores");
            assert!(due_milli(Division::Equal, cores, &desires)[1] <= cores * 1000 / 150, "and no more than that");
        }
    }

    #[test]
    fn a_gang_has_all_cores_in_its_turn_and_each_has_one_in_a_frame() {
        let desires = programs(&[(100, 8), (0, 0), (300, 8), (50, 3), (50, 0)]);
        const STEPS: u64 = 9_000;
        let at: Vec<Vec<Allotted>> =
            (0..STEPS).map(|step| gangs_in_turn(8, &desires, u64::MAX / STEPS * step)).collect();
        for (nth, part) in [100, 0, 300, 50, 0].into_iter().enumerate() {
            let cores = at.iter().map(|allotted| allotted[nth].cores);
            let runs = cores.clone().filter(|cores| *cores > 0).count() as u64;
            assert!(
                runs.abs_diff(STEPS * part / 450) <= 1
                    && cores.max().unwrap() == desires[nth].desire.min(8 * part as u32)
            );
            let turns = (0..at.len())
                .filter(|step| at[*step][nth].cores > 0 && at[(step + at.len() - 1) % at.len()][nth].cores == 0);
            assert_eq!(turns.count() as u64, part.min(1));
            for (step, allotted) in at.iter().enumerate().step_by(97).filter(|_| part > 0) {
                let until_change = allotted[nth].until_change.unwrap();
                let after = step + (until_change / (u64::MAX / STEPS)) as usize + 1;
                let runs = [after + at.len() - 2, after].map(|step| at[step % at.len()][nth].cores > 0);
                assert!(runs[0] != runs[1], "{nth}: from {step} at {after}");
            }
        }
        assert!(at.iter().all(|allotted| allotted.iter().filter(|allotted| allotted.cores > 0).count() == 1));
        // A program without another program keeps its cores. A program divides its turn among its parties.
        let alone = gangs_in_turn(8, &programs(&[(100, 8)]), 5);
        assert_eq!(alone, [Allotted { cores: 8, until_change: None }]);
        let claim = |program| Claim { program, weight: 100, desire: 8 };
        let two: Vec<u32> =
            gangs_in_turn(8, &[claim(7), claim(9), claim(7)], 0).iter().map(|allotted| allotted.cores).collect();
        assert_eq!(two, [4, 0, 4]);
    }

    #[test]
    fn a_division_holds_only_among_programs_that_all_propose_it() {
        let slowed = |efficiency| Some(Proposal::Slowdown { efficiency });
        assert_eq!(Division::among([slowed(500), slowed(900)], true), Division::Slowdown);
        assert_eq!(Division::among([Some(Proposal::Time); 2], false), Division::Time);
        for other in [None, Some(Proposal::Equal), Some(Proposal::Time)] {
            assert_eq!(Division::among([slowed(500), slowed(900), other], true), Division::Equal);
        }
        assert_eq!(Division::among([], true), Division::Equal);
        // A single program that needs all of its cores at once is enough.
        let together = Some(Proposal::Together);
        for other in [together, Some(Proposal::Time), slowed(500), Some(Proposal::Equal)] {
            for proposals in [[together, other], [other, together]] {
                let among = |can_take_turns| Division::among(proposals, can_take_turns);
                assert_eq!([true, false].map(among), [Division::Time, Division::Equal]);
            }
        }
        let factor = |division| Proposal::Slowdown { efficiency: 800 }.factor(division);
        assert_eq!([Division::Slowdown, Division::Equal, Division::Time].map(factor), [800, 1000, 1000]);
    }

    #[test]
    fn any_word_says_something_and_no_efficiency_moves_a_share_further_than_to_half_or_twice() {
        for proposal in [
            Proposal::Equal,
            Proposal::Time,
            Proposal::Together,
            Proposal::Slowdown { efficiency: 500 },
            Proposal::Slowdown { efficiency: 987 },
        ] {
            assert_eq!(Proposal::from_bits(proposal.to_bits()), proposal);
        }
        let read = |bits| Proposal::from_bits(bits).factor(Division::Slowdown);
        assert_eq!([3, 499, 1001, u32::MAX].map(read), [500, 500, 1000, 1000]);
        for others in 1..=63 {
            for [one, all] in [[0, 0], [3, u32::MAX], [u32::MAX, 3]] {
                let claim = |program| {
                    let weight =
                        100 * Proposal::from_bits(if program == 0 { one } else { all }).factor(Division::Slowdown);
                    Claim { program, weight, desire: 64_000 }
                };
                let claims: Vec<Claim> = (0..=others).map(claim).collect();
                let (share, equal) = (deq(64_000, &claims, 0)[0], 64_000 / (others as u32 + 1));
                assert!(2 * share + 1 >= equal && share <= 2 * equal + 1, "{share} of {equal}");
            }
        }
    }

    #[test]
    fn nothing_is_given_twice_or_kept_back() {
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for turn in 0..2_000 {
            let cores = draw(130) as u32;
            let claims: Vec<Claim> = (0..draw(20))
                .map(|_| Claim { program: draw(8), weight: 1 + draw(300) as u32, desire: draw(70) as u32 })
                .collect();
            let allotments = deq(cores, &claims, scattered(turn));
            let desired: u64 = claims.iter().map(|claim| u64::from(claim.desire)).sum();
            assert!(claims.iter().zip(&allotments).all(|(claim, allotment)| *allotment <= claim.desire));
            let given: u64 = allotments.iter().map(|allotment| u64::from(*allotment)).sum();
            assert_eq!(given, desired.min(cores.into()), "{cores} cores among {claims:?}");
        }
    }
}
