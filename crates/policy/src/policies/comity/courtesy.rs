//! The coordinator of `comity`: decides when a program holds cores, and when it shares time with other programs.

use core::mem;

use super::Divides;
use super::efficiency::Efficiency;
use super::fold::Fold;
use crate::allotment::{CROWD, Division, Proposal};
use crate::{Account, CORRECTIONS, Claims, Coordinator, Mode, Orders, OutOfTurn, Room, UNCORRECTED};

/// The coordinator of `comity`. Each program is entitled to a share of the processor time in proportion to its weight.
/// The program is charged for the time that it uses, and not for its awake workers.
///
/// A program that could use its share holds cores, and has one worker awake on each ([`Mode::Cores`]). Its workers
/// lend their cores when they sleep, and take them back when a push needs them. A program that could not use its share
/// holds no core ([`Mode::Time`]): its tasks block, a quota throttles it, or it works only from time to time. Its
/// workers run on any core, together with the workers of other programs. So no thread waits while a core is idle.
///
/// A program that begins holds cores, although it takes some quanta until the coordinator knows what it can use. If it
/// began with sharing time, each worker that it wakes would have to wait for a time slice of another program's worker.
/// A program that begins again continues in its last mode. A command, for which [`Account::first`] is never set,
/// shares time first, because under [`Mode::Cores`] its threads would have to move at once.
///
/// The time that a program could use is the time that its threads would have used if they had never waited for a core
/// ([`Account::able_ns`]). So a program does not count as blocking because other programs are on its cores. If threads
/// wait for each other, a thread that waits for a core delays other threads. So the waits for cores
/// ([`Account::wanted_ns`]) are a second, weaker sign that a program could use its share.
///
/// On a machine of many cores a program of short parallel phases uses less than its share, and without cores of its
/// own it waits in each phase. So a program that could use one core holds cores, unless its tasks block. Cores that it
/// does not use for longer than a moment are lent.
///
/// These times do not show whether other programs used a core that the program left. For example, if all threads of
/// the program wake at once, they wait for each other, although their core is idle most of the time. So if most of the
/// unused time was idle, the program no longer holds cores.
///
/// In a crowd (many more programs than cores) each program is entitled to a small part of a core. Passing cores on all
/// the time would cost more than it gains. So each program shares time, with one worker awake. The operating system's
/// queues then have one thread per program, and give each program the same time. Programs of different weight continue
/// to hold cores.
///
/// A program that holds cores rests while it is [out of turn](OutOfTurn). Its weight is corrected by the time that it
/// is owed. Under `share=slowdown` it also publishes how much faster it is with all cores. Under `share=time` it
/// publishes that it wants all cores in turn.
///
/// When other programs begin to want cores, at most one worker per held core may be awake, because more workers would
/// only cost context switches. But tasks may wait for each other. The sign of this is a look at which a task is
/// blocked, or has made no progress for some looks, while tasks are queued. After such a look all workers may be
/// awake. They are confined to the cores that the program holds, and the kernel switches between them, so that a
/// blocked task does not delay a task that can run. After some looks without this sign, the limit of one worker per
/// core returns. See [`Breadth`].
///
/// In a virtual machine whose host takes time away, a [fold](Fold) limits the number of cores.
#[derive(Debug)]
pub(super) struct Courtesy {
    divides: Divides,
    efficiency: Efficiency,
    fold: Fold,
    mode: Mode,
    /// True if the program has begun.
    has_begun: bool,
    /// The number of looks in this mode.
    looks: u32,
    /// The number of successive signs that the program could use its share. See [`SURE`].
    able: u32,
    /// The number of successive looks at which the program could not use its share.
    unable: u32,
    /// The number of signs that the program needs before it holds cores. It doubles each time that the program held
    /// cores in vain.
    patience: u32,
    /// The time of held cores that the program did not use, and the machine's idle time in the same looks.
    unused: Unused,
    /// True if there are many more programs than cores, and their weights are similar.
    in_crowd: bool,
    owed: Owed,
    /// True if all programs had cores in turn at the last look.
    was_gang: bool,
    /// True if part of the quantum belonged to a probe, in which each program had all cores in turn.
    is_probed: bool,
    /// The number of workers that may be awake while the program is alone or shares time.
    free: Breadth,
    /// The number of workers that may be awake while the program holds cores and other programs want cores.
    beside: Breadth,
    /// Quanta until the next account.
    due: u16,
}

/// The maximum number of quanta between two looks.
const CALM: u16 = 4;

/// The maximum number of quanta between two looks of a program that is alone and whose workers may all be awake.
const CALM_ALONE: u16 = 16;

/// The number of successive looks at which the program could not use its share, after which it no longer holds cores.
/// A single such look is unreliable: the thread that hands in the tasks may have waited for a core.
const UNABLE: u32 = 2;

/// The number of looks for which a program must hold cores. A program that holds them for fewer looks has held them in
/// vain.
const IN_VAIN: u32 = 10;

/// The number of signs that a look counts for if the program could have used its share. A look at which only the
/// program's time plus its waits for cores reached its share counts for one sign.
const SURE: u32 = 16;

/// The maximum number of signs that a program needs before it holds cores again.
const MOST_PATIENCE: u32 = 16 * SURE;

/// The number of successive looks without a need for more workers, after which fewer workers may be awake.
const CAUTION: u32 = 2;

/// The maximum of [`Breadth::caution`], which grows each time that too few workers were awake.
const MOST_CAUTION: u32 = 128;

/// The blocked time, in hundredths of a quantum, from which tasks count as waiting for each other. Short waits for
/// locks and pages stay below it.
const BLOCKS: u64 = 5;

/// The number of programs per core at which programs are no longer a [crowd](CROWD).
const NO_CROWD: u32 = 2;

/// The number of looks with unused cores after which the machine's idle time shows whether other programs used them.
const UNUSED_LOOKS: u32 = 4;

/// The smallest idle time that counts. The kernel reports idle time in steps of 10 ms. A step or two may fall by
/// chance into a few looks that leave little time unused.
const LEAST_IDLE_NS: u64 = 30_000_000;

/// The sums over the looks since the program last used all cores that it held.
#[derive(Clone, Copy, Debug, Default)]
struct Unused {
    looks: u32,
    held_ns: u64,
    unused_ns: u64,
    idle_ns: u64,
}

impl Unused {
    fn note(&mut self, account: &Account) {
        if is_at_least(account.used_ns, 90, account.held_ns) {
            // A look after a fraction of a millisecond does not show that the program can use its cores, so it resets
            // nothing.
            if u64::from(self.looks).saturating_mul(2 * account.held_ns) >= self.held_ns {
                *self = Unused::default();
            }
            return;
        }
        self.looks = self.looks.saturating_add(1);
        self.held_ns = self.held_ns.saturating_add(account.held_ns);
        self.unused_ns = self.unused_ns.saturating_add(account.held_ns - account.used_ns);
        self.idle_ns = self.idle_ns.saturating_add(account.idle_ns);
    }

    /// True if most of the unused time was idle.
    fn is_idle(&self) -> bool {
        let is_known = self.looks >= UNUSED_LOOKS && self.idle_ns >= LEAST_IDLE_NS;
        is_known && is_at_least(self.idle_ns, 50, self.unused_ns)
    }
}

/// Processor time that a program is owed: it was entitled to the time and could have used it, but did not get it.
/// There are several reasons. Turns begin late, because the other program's thread runs until its next fork, or the
/// kernel does not run the coordinator. Lent cores come back late. Threads that are not workers run together with
/// other programs' workers. So each program corrects its weight by the time that it is owed.
#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    ns: i64,
    correction: Option<u32>,
    /// Time since the correction was last set, in nanoseconds.
    since_ns: u64,
}

/// The time within which the owed time is repaid: the maximum of one second and three frames. A program is owed, or
/// owes, at most half of its share in that time, so it cannot save up unused time.
const PAID_WITHIN_NS: u64 = 1_000_000_000;
const PAID_WITHIN_FRAMES: u64 = 3;

/// The time between two corrections. Each correction moves the turns of all programs a little.
const CORRECTS_EVERY_NS: u64 = 100_000_000;

/// The largest correction that is ignored, in thousandths. Cores would change owners for a small gain.
const TOO_LITTLE: u32 = 50;

impl Owed {
    fn note(&mut self, account: &Account) {
        let share_milli = i128::from(account.share_milli.max(1));
        let part = |time: u64| i128::from(time) * share_milli / 1000;
        let within = PAID_WITHIN_NS.max(PAID_WITHIN_FRAMES * account.frame_ns);
        let most = (part(within) / 2).max(1);
        // The program is not owed the time that it left unused on the cores that it held, or on one core if it held
        // fewer.
        let had = account.held_ns.max(account.elapsed_ns.min(part(account.elapsed_ns) as u64)).max(1);
        let wanted = account.wanted_ns.max(account.used_ns).min(had);
        let due = if account.elapsed_ns > 0 {
            part(account.lasted_ns) * i128::from(wanted) / i128::from(had)
        } else {
            part(account.lasted_ns)
        };
        let owed = i128::from(self.ns) + due - i128::from(account.used_ns);
        self.ns = owed.clamp(-most, most) as i64;
        self.since_ns += account.lasted_ns;
        if self.since_ns >= CORRECTS_EVERY_NS {
            self.since_ns = 0;
            let usual = i128::from(UNCORRECTED);
            let correction = usual + usual * i128::from(self.ns) / part(within).max(1);
            self.correction = Some((correction as u32).clamp(*CORRECTIONS.start(), *CORRECTIONS.end()));
        }
    }

    fn correction(&self) -> u32 {
        self.correction.filter(|to| to.abs_diff(UNCORRECTED) > TOO_LITTLE).unwrap_or(UNCORRECTED)
    }
}

impl Courtesy {
    pub(super) fn new(divides: Divides) -> Courtesy {
        Courtesy {
            divides,
            efficiency: Efficiency::default(),
            fold: Fold::default(),
            mode: Mode::Time,
            has_begun: false,
            looks: 0,
            able: 0,
            unable: 0,
            patience: SURE,
            unused: Unused::default(),
            in_crowd: false,
            owed: Owed::default(),
            was_gang: false,
            is_probed: false,
            free: Breadth::of(Room::Workers),
            beside: Breadth::of(Room::Cores),
            due: 1,
        }
    }
}

/// True if `part` is at least `hundredths` of `whole`.
fn is_at_least(part: u64, hundredths: u64, whole: u64) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(hundredths)
}

/// True if tasks block, as far as workers were asked.
fn is_blocking(account: &Account) -> bool {
    account.blocked_ns > 0 && is_at_least(account.blocked_ns, BLOCKS, account.elapsed_ns)
}

impl Courtesy {
    fn look_for_crowd(&mut self, account: &Account) {
        let least = if self.in_crowd { NO_CROWD + 1 } else { CROWD };
        let is_many = account.programs >= least.saturating_mul(account.usable.max(1));
        let [together, machine] =
            [u64::from(account.share_milli) * u64::from(account.programs), u64::from(account.usable) * 1000];
        let are_alike = is_at_least(together, 90, machine) && is_at_least(machine, 90, together);
        let in_crowd = is_many && are_alike;
        if in_crowd != self.in_crowd {
            (self.in_crowd, self.free) = (in_crowd, Breadth::of(Room::Workers));
            self.enter(Mode::Time);
        }
    }

    fn choose_mode(&mut self, account: &Account) {
        // If no other program has work, no program loses anything by held cores. So this program holds cores, unless
        // it is idle, as if there were another program.
        let is_only = account.programs <= 1;
        let share_milli = if is_only { account.share_milli / 2 } else { account.share_milli };
        // A program cannot use more cores than it has workers.
        let share_milli = share_milli.min(account.workers.saturating_mul(1000));
        let share_ns = account.elapsed_ns.saturating_mul(share_milli.into()) / 1000;
        // While the program shares time, its account does not show that its phases could use more than one core: one
        // worker does most of each phase before the other workers get a core. So using one core is enough. Exception:
        // a program with tasks that block would hold the rest of its share in vain.
        let blocks = !is_at_least(account.wanted_ns, 80, account.usage_ns);
        // For a command, the time with tasks is unknown.
        let part_ns = if blocks || account.usage_ns == 0 { share_ns } else { share_ns.min(account.elapsed_ns) };
        self.looks = self.looks.saturating_add(1);
        match self.mode {
            Mode::Time => {
                self.able = match () {
                    () if is_at_least(account.able_ns, 95, part_ns) => self.able + SURE,
                    () if is_at_least(account.wanted_ns, 95, part_ns) => self.able + 1,
                    () => 0,
                };
                // A program that uses its whole share while it shares time can certainly use it, so it holds cores at
                // once.
                if self.able >= self.patience || (self.able > 0 && is_at_least(account.used_ns, 95, share_ns)) {
                    self.enter(Mode::Cores);
                }
            }
            Mode::Cores => {
                // In a probe, a program has more cores than its share, which it may be unable to use.
                if !self.is_probed {
                    self.unused.note(account);
                }
                // If the program's threads wait for cores, other programs use its cores, or these are idle. This is no
                // waste by the program.
                let wastes = !self.is_probed && !is_at_least(account.wanted_ns, 90, account.held_ns);
                // A program that holds no core at the moment has only one worker awake, so it is compared with one
                // core.
                let is_due_more = account.held_ns < share_ns / 2;
                let is_part = share_milli > 1000 && blocks && !is_at_least(account.wanted_ns, 90, share_ns);
                let is_light = is_due_more && !is_at_least(account.wanted_ns, 80, share_ns.min(account.elapsed_ns));
                let is_idle = !is_at_least(account.wanted_ns, 2, account.elapsed_ns);
                self.unable =
                    if is_idle || (!is_only && (wastes || is_light || is_part)) { self.unable + 1 } else { 0 };
                let leaves_idle = !is_only && self.unused.is_idle();
                if self.unable >= UNABLE || leaves_idle {
                    let in_vain = self.looks < IN_VAIN || (leaves_idle && 2 * self.unused.looks >= self.looks);
                    self.patience = if in_vain { (2 * self.patience).min(MOST_PATIENCE) } else { SURE };
                    self.enter(Mode::Time);
                }
            }
        }
    }

    fn enter(&mut self, mode: Mode) {
        (self.mode, self.looks, self.able, self.unable, self.unused) = (mode, 0, 0, 0, Unused::default());
    }

    /// Returns the breadth that limits the program in its present mode.
    fn breadth(&mut self, account: &Account) -> &mut Breadth {
        if account.alone || self.mode == Mode::Time { &mut self.free } else { &mut self.beside }
    }

    fn choose_room(&mut self, account: &Account) {
        let in_crowd = self.in_crowd;
        let is_free = account.alone || self.mode == Mode::Time;
        let machine_ns = account.elapsed_ns.saturating_mul(account.usable.into());
        let computes = is_at_least(account.used_ns, 90, machine_ns) && account.awake > account.usable;
        // Waits for cores show that there are too many workers only while the program is alone. Otherwise the workers
        // also wait for other programs.
        let may_be_too_many = account.alone && account.workers > account.usable;
        let waits = may_be_too_many && is_at_least(account.wanted_ns, 125, account.used_ns.max(1));
        let speaks_for_fewer = if is_free { computes || waits || in_crowd } else { !is_blocking(account) };
        self.breadth(account).look(account, speaks_for_fewer, if in_crowd { Room::One } else { Room::Cores });
    }
}

/// The number of workers of a program that may be awake, and the looks that support a change of it.
#[derive(Clone, Copy, Debug)]
struct Breadth {
    room: Room,
    /// If `room` is [`Room::Workers`]: the number of successive looks without a need for so much room. Otherwise: the
    /// number of looks since the room was reduced.
    looks: u32,
    /// The number of successive looks that are needed to reduce the room. It grows each time that too few workers were
    /// awake.
    caution: u32,
}

impl Breadth {
    fn of(room: Room) -> Breadth {
        Breadth { room, looks: 0, caution: CAUTION }
    }

    /// Notes one look. `speaks_for_fewer`: the room `fewer` would have been enough at this look. After enough such
    /// looks the room is `fewer`.
    fn look(&mut self, account: &Account, speaks_for_fewer: bool, fewer: Room) {
        match self.room {
            Room::Workers => {
                self.looks = if speaks_for_fewer && account.unmoved == 0 { self.looks + 1 } else { 0 };
                if self.looks >= self.caution {
                    (self.room, self.looks) = (fewer, 0);
                }
            }
            Room::Cores | Room::One => {
                self.looks = self.looks.saturating_add(1);
                if account.queued > 0 && account.retired > 0 && account.blocked > 0 {
                    // If the smaller room was enough for a long time, few looks are needed to try it again.
                    let went_well = self.looks >= self.caution.saturating_mul(4);
                    self.caution = if went_well { CAUTION } else { (4 * self.caution).min(MOST_CAUTION) };
                    (self.room, self.looks) = (Room::Workers, 0);
                }
            }
        }
    }

    /// True if the last looks showed no need for so much room, but these looks are not enough yet.
    fn gathers(&self) -> bool {
        self.room == Room::Workers && self.looks > 0
    }
}

impl Coordinator for Courtesy {
    fn quantum(&mut self, account: &Account) -> Orders {
        let worth = self.fold.look(account);
        // A fold limits the program's share, because the host takes the rest of the time away.
        let account = &Account { share_milli: account.share_milli.min(worth.saturating_mul(1000)), ..*account };
        let before = (self.mode, self.breadth(account).room);
        if account.first && !mem::replace(&mut self.has_begun, true) {
            self.enter(Mode::Cores);
        }
        let is_gang = account.division == Division::Time;
        // The quantum that ends just after a probe belongs to the probe too.
        let was_gang = mem::replace(&mut self.was_gang, is_gang);
        self.is_probed = self.divides == Divides::Slowdown && (is_gang || was_gang);
        self.look_for_crowd(account);
        if self.divides == Divides::Slowdown {
            self.efficiency.note(account, self.mode);
        }
        if account.elapsed_ns > 0 {
            if !self.in_crowd {
                self.choose_mode(account);
            }
            self.choose_room(account);
        }
        // Under `share=time`, a program is entitled to the time of its turns, whether it uses this time or not. So it
        // is owed nothing.
        if self.mode == Mode::Time || account.alone || (is_gang && self.divides == Divides::Time) {
            self.owed = Owed::default();
        } else if !is_gang && !was_gang {
            self.owed.note(account);
        }
        let wanted = if self.mode == Mode::Cores { account.queued.min(account.retired) } else { 0 };
        let free = wanted.min(account.free);
        let back = (wanted - free).min(account.lent);
        let breadth = *self.breadth(account);
        let is_settled =
            before == (self.mode, breadth.room) && self.able == 0 && self.unable == 0 && !breadth.gathers();
        let may_be_stuck = account.unmoved > 0 && account.queued > 0 && account.retired > 0;
        let blocks = account.blocked > 0 || is_blocking(account);
        let is_calm = !account.first && is_settled && free == 0 && back == 0 && !blocks && !may_be_stuck;
        let most = if account.alone && breadth.room == Room::Workers { CALM_ALONE } else { CALM };
        self.due = if is_calm { (2 * self.due).min(most) } else { 1 };
        // With many programs, each program looks less often, so that the looks of all programs together cost no more
        // than with few programs. In a crowd it looks half as often, because less depends on the looks.
        let looks = if self.in_crowd { 1 } else { 2 };
        let crowd = account.programs / (looks * account.usable.max(1));
        Orders {
            desire: if self.mode == Mode::Cores { account.usable } else { 0 },
            worth,
            cores: Claims::More { free, own_only: false, back },
            mode: self.mode,
            room: if worth < account.usable && breadth.room == Room::Workers { Room::Cores } else { breadth.room },
            due: self.due.max(crowd.try_into().unwrap_or(u16::MAX)),
            out_of_turn: OutOfTurn::Rests,
            correction: self.owed.correction(),
            proposal: match self.divides {
                Divides::Equal => Proposal::Equal,
                Divides::Slowdown => Proposal::Slowdown { efficiency: self.efficiency.published() },
                Divides::Time => Proposal::Time,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StealTime;
    use alloc::vec::Vec;

    const MS: u64 = 1_000_000;

    /// The account of a quantum together with another program, on two cores. The arguments are in milliseconds:
    /// processor time, time that the program could have used, time plus waits for cores, and time of held cores.
    fn beside(used: u64, able: u64, wanted: u64, held: u64) -> Account {
        Account {
            workers: 16,
            usable: 2,
            awake: 1,
            elapsed_ns: 10 * MS,
            used_ns: used * MS,
            able_ns: able * MS,
            wanted_ns: wanted * MS,
            held_ns: held * MS,
            share_milli: 1000,
            programs: 2,
            ..Account::default()
        }
    }

    fn modes(courtesy: &mut Courtesy, accounts: &[Account]) -> Vec<Mode> {
        accounts.iter().map(|account| courtesy.quantum(account).mode).collect()
    }

    #[test]
    fn a_program_that_begins_holds_cores_for_two_looks_and_one_that_computes_desires_what_it_can_use() {
        let first = Account { first: true, elapsed_ns: 0, ..beside(0, 0, 0, 0) };
        let mut courtesy = Courtesy::new(Divides::Equal);
        let begins = courtesy.quantum(&first);
        assert_eq!((begins.mode, begins.desire), (Mode::Cores, 2));
        assert_eq!(modes(&mut courtesy, &[beside(3, 3, 3, 10); 2]), [Mode::Cores, Mode::Time], "it held them in vain");
        assert_eq!(courtesy.quantum(&first).mode, Mode::Time, "it begins anew as it left off");
        // A command is first seen after a quantum.
        let mut courtesy = Courtesy::new(Divides::Equal);
        assert_eq!(courtesy.quantum(&beside(3, 3, 3, 0)).mode, Mode::Time);
        let computes = courtesy.quantum(&beside(10, 20, 20, 0));
        assert_eq!((computes.mode, computes.desire), (Mode::Cores, 2));
        // The program holds cores even if its threads wait, because other programs are on its core.
        assert_eq!(courtesy.quantum(&beside(4, 5, 10, 10)).mode, Mode::Cores);
        // The program begins again in its last mode.
        assert_eq!(courtesy.quantum(&Account { first: true, elapsed_ns: 0, ..beside(0, 0, 0, 0) }).mode, Mode::Cores);
    }

    #[test]
    fn a_program_that_blocks_or_is_throttled_holds_no_core() {
        let mut courtesy = Courtesy::new(Divides::Equal);
        assert_eq!(modes(&mut courtesy, &[beside(3, 3, 3, 0); 40]), [Mode::Time; 40]);
        // The program holds a core, and no longer uses it.
        courtesy.enter(Mode::Cores);
        let wastes = Account { queued: 9, retired: 9, free: 1, ..beside(5, 5, 5, 10) };
        assert_eq!(
            courtesy.quantum(&wastes).mode,
            Mode::Cores,
            "it may have waited for the thread that hands in tasks"
        );
        assert_eq!(modes(&mut courtesy, &[beside(9, 9, 9, 10), wastes]), [Mode::Cores; 2]);
        let orders = courtesy.quantum(&wastes);
        let nothing = Claims::More { free: 0, own_only: false, back: 0 };
        assert_eq!((orders.mode, orders.desire, orders.cores), (Mode::Time, 0, nothing));
    }

    /// The account of a quantum as in `beside`, but on 16 cores with a share of eight. The arguments are in
    /// milliseconds: processor time, time plus waits for cores, and time for which workers had a task.
    fn of_sixteen(used: u64, wanted: u64, usage: u64) -> Account {
        let account = beside(used, used, wanted, 0);
        Account { usable: 16, share_milli: 8000, usage_ns: usage * MS, ..account }
    }

    #[test]
    fn a_program_that_could_use_a_core_and_waits_for_nothing_else_holds_cores_on_a_large_machine() {
        // The program's phases would use more cores, but its workers wait for cores.
        assert_eq!(Courtesy::new(Divides::Equal).quantum(&of_sixteen(22, 33, 35)).mode, Mode::Cores);
        assert_eq!(Courtesy::new(Divides::Equal).quantum(&of_sixteen(5, 6, 6)).mode, Mode::Time, "less than a core");
        // A program with tasks that block would hold the cores without using them.
        assert_eq!(modes(&mut Courtesy::new(Divides::Equal), &[of_sixteen(22, 33, 90); 40]), [Mode::Time; 40]);
        let mut courtesy = Courtesy::new(Divides::Equal);
        courtesy.enter(Mode::Cores);
        let holds = |account: Account| Account { held_ns: account.used_ns, ..account };
        assert_eq!(modes(&mut courtesy, &[holds(of_sixteen(40, 44, 45)); 40]), [Mode::Cores; 40]);
        let blocks = holds(of_sixteen(40, 44, 90));
        assert_eq!(modes(&mut courtesy, &[blocks; 2]), [Mode::Cores, Mode::Time]);
        // A program that can use its share holds cores although its tasks block.
        courtesy.enter(Mode::Cores);
        assert_eq!(modes(&mut courtesy, &[holds(of_sixteen(78, 80, 160)); 40]), [Mode::Cores; 40]);
    }

    #[test]
    fn a_program_that_waits_for_long_needs_several_signs_and_more_after_cores_in_vain() {
        let mut courtesy = Courtesy::new(Divides::Equal);
        let mut looks_until_cores = || {
            let looks = (1..).find(|_| courtesy.quantum(&beside(3, 4, 30, 0)).mode == Mode::Cores);
            assert_eq!(modes(&mut courtesy, &[beside(3, 3, 3, 10); 2]), [Mode::Cores, Mode::Time]);
            looks.unwrap()
        };
        assert_eq!([(); 6].map(|()| looks_until_cores()), [16, 32, 64, 128, 256, 256]);
        // A program that has more than its share can use it.
        assert_eq!(courtesy.quantum(&beside(12, 12, 12, 0)).mode, Mode::Cores);
    }

    #[test]
    fn threads_that_wait_for_each_other_on_a_core_that_idles_do_not_keep_it() {
        let mut courtesy = Courtesy::new(Divides::Equal);
        courtesy.enter(Mode::Cores);
        // A program with 16 threads that wake at once.
        let crowd = beside(3, 4, 30, 10);
        assert_eq!(modes(&mut courtesy, &[crowd; 9]), [Mode::Cores; 9], "others use it");
        let idle = Account { idle_ns: 7 * MS, ..crowd };
        courtesy.quantum(&beside(10, 10, 10, 10));
        assert_eq!(modes(&mut courtesy, &[idle; 5])[3..], [Mode::Cores, Mode::Time], "28 ms idle, and 35 ms");
        // Two of the kernel's steps may occur among looks at a program that leaves little unused.
        courtesy.enter(Mode::Cores);
        let mut looks = [beside(7, 10, 20, 10); 9];
        (looks[1].idle_ns, looks[2].idle_ns) = (10 * MS, 10 * MS);
        assert_eq!(modes(&mut courtesy, &looks), [Mode::Cores; 9]);
    }

    #[test]
    fn a_core_that_idles_was_held_in_vain_whatever_a_short_look_in_between_says() {
        let mut courtesy = Courtesy::new(Divides::Equal);
        // The program's threads wait for each other, and 0.3 of the core is idle.
        let idle = Account { idle_ns: 3 * MS, ..beside(6, 9, 20, 10) };
        let early = Account { elapsed_ns: MS / 2, lasted_ns: MS / 2, used_ns: MS / 2, held_ns: MS / 2, ..idle };
        let mut looks_until_cores = || {
            courtesy.enter(Mode::Cores);
            let held = (1..1000).find(|nth| {
                let look = if nth % 5 == 0 { Account { idle_ns: 0, ..early } } else { idle };
                courtesy.quantum(&look).mode == Mode::Time
            });
            assert_eq!(held, Some(12), "more looks than {IN_VAIN}");
            (1..1000).find(|_| courtesy.quantum(&beside(3, 9, 20, 0)).mode == Mode::Cores).unwrap()
        };
        let signs = [(); 3].map(|()| looks_until_cores());
        assert!(signs[0] < signs[1] && signs[1] < signs[2], "{signs:?}");
    }

    #[test]
    fn a_program_with_one_worker_can_use_one_core_and_one_that_is_alone_wastes_nothing() {
        let mut courtesy = Courtesy::new(Divides::Equal);
        let one = Account { workers: 1, usable: 1, share_milli: 8000, ..beside(10, 10, 10, 0) };
        assert_eq!(courtesy.quantum(&one).mode, Mode::Cores);
        let only = Account { programs: 1, alone: true, ..beside(2, 2, 2, 20) };
        assert_eq!(courtesy.quantum(&only).mode, Mode::Cores);
        let idle = Account { programs: 1, alone: true, ..beside(0, 0, 0, 20) };
        assert_eq!(modes(&mut courtesy, &[idle; 2]), [Mode::Cores, Mode::Time]);
    }

    /// The account of a program that holds cores together with another program. Each is entitled to one core of two.
    /// `used` is its processor time, and `lasted` the length of the quantum, both in milliseconds.
    fn turn(used: u64, lasted: u64) -> Account {
        let active = used.min(lasted);
        let account = beside(used, used, used, used);
        Account { elapsed_ns: active * MS, lasted_ns: lasted * MS, frame_ns: 200 * MS, ..account }
    }

    #[test]
    fn a_program_that_had_less_than_its_due_counts_more_until_that_is_made_up_for() {
        let mut courtesy = Courtesy::new(Divides::Equal);
        courtesy.enter(Mode::Cores);
        // The program is out of turn for most of the time.
        let corrections: Vec<u32> = [20; 50].map(|lasted| courtesy.quantum(&turn(10, lasted)).correction).to_vec();
        assert!(corrections.is_sorted() && corrections[4] == 1000 && corrections[9] == 1100, "{corrections:?}");
        assert_eq!(corrections[49], 1500, "half a second is the most that is owed");
        let mut back = || courtesy.quantum(&turn(40, 20)).correction;
        let repaid: Vec<u32> = (0..25).map(|_| back()).collect();
        assert!(repaid.is_sorted_by(|one, next| one >= next) && repaid[24] == 1000, "{repaid:?}");
        assert_eq!((0..100).map(|_| back()).last(), Some(500), "nor does it owe more");
        // A program that shares time is owed nothing.
        courtesy.enter(Mode::Time);
        assert_eq!(courtesy.quantum(&beside(1, 1, 1, 0)).correction, 1000);
    }

    #[test]
    fn a_gang_is_owed_nothing_where_all_take_turns_and_else_as_any_program() {
        let correction = |division| {
            let mut courtesy = Courtesy::new(Divides::Time);
            courtesy.enter(Mode::Cores);
            let look = Account { division, ..turn(10, 20) };
            [(); 50].map(|()| courtesy.quantum(&look).correction)[49]
        };
        assert_eq!([Division::Time, Division::Equal, Division::Slowdown].map(correction), [1000, 1500, 1500]);
        // A probe only suspends the account of what is owed.
        let mut courtesy = Courtesy::new(Divides::Slowdown);
        courtesy.enter(Mode::Cores);
        let mut look = |division| courtesy.quantum(&Account { division, ..turn(10, 20) }).correction;
        assert_eq!([(); 50].map(|()| look(Division::Slowdown))[49], 1500);
        assert_eq!([(); 10].map(|()| look(Division::Time)), [1500; 10]);
        // The time before the end of a probe belongs to the probe, too.
        let mut courtesy = Courtesy::new(Divides::Slowdown);
        courtesy.enter(Mode::Cores);
        let mut look = |nth: u32| {
            let division = if nth.is_multiple_of(2) { Division::Time } else { Division::Slowdown };
            courtesy.quantum(&Account { division, ..turn(10, 20) }).correction
        };
        assert_eq!((0..100).map(&mut look).max(), Some(1000));
    }

    #[test]
    fn what_a_probe_gives_beyond_what_a_program_uses_is_not_wasted_by_it() {
        // The program uses half of the cores that it holds for the moment.
        let look = |division| Account { division, ..of_sixteen(80, 80, 80) };
        let held = |account: Account| Account { held_ns: 160 * MS, ..account };
        let mode = |division| {
            let mut courtesy = Courtesy::new(Divides::Slowdown);
            courtesy.enter(Mode::Cores);
            [(); 20].map(|()| courtesy.quantum(&held(look(division))).mode)[19]
        };
        assert_eq!([Division::Time, Division::Slowdown].map(mode), [Mode::Cores, Mode::Time]);
    }

    #[test]
    fn a_quantum_out_of_turn_says_nothing_of_what_the_program_could_use() {
        let mut courtesy = Courtesy::new(Divides::Equal);
        courtesy.enter(Mode::Cores);
        let out = Account { elapsed_ns: 0, lasted_ns: 10 * MS, frame_ns: 200 * MS, ..beside(0, 0, 0, 0) };
        for _ in 0..100 {
            let orders = courtesy.quantum(&out);
            assert_eq!((orders.mode, orders.desire, orders.out_of_turn), (Mode::Cores, 2, OutOfTurn::Rests));
        }
    }

    #[test]
    fn alone_there_is_room_for_all_until_they_crowd_and_again_when_they_wait_for_each_other() {
        let mut courtesy = Courtesy::new(Divides::Equal);
        let alone = Account { programs: 1, alone: true, share_milli: 2000, awake: 16, ..beside(20, 20, 90, 20) };
        let mut room = |account: Account| courtesy.quantum(&account).room;
        // A task that does not move may be waiting for a task that no worker has begun.
        assert_eq!([(); 5].map(|()| room(Account { unmoved: 1, ..alone })), [Room::Workers; 5]);
        assert_eq!([(); 2].map(|()| room(alone)), [Room::Workers, Room::Cores]);
        let waits = Account { awake: 2, retired: 14, queued: 6, blocked: 2, ..alone };
        assert_eq!(room(waits), Room::Workers);
        // The next time, more looks are needed before fewer workers may be awake.
        let until_narrow = (1..).find(|_| room(alone) == Room::Cores);
        assert_eq!(until_narrow, Some(8));
    }

    #[test]
    fn beside_others_there_is_room_for_all_workers_once_a_task_blocks_while_others_wait() {
        let mut courtesy = Courtesy::new(Divides::Equal);
        courtesy.enter(Mode::Cores);
        let computes = Account { awake: 4, held: 1, ..beside(10, 10, 10, 10) };
        let mut room = |account: Account| courtesy.quantum(&account).room;
        assert_eq!([(); 3].map(|()| room(computes)), [Room::Cores; 3]);
        // A task that no worker has begun may be the one that the blocked task waits for.
        let blocks = Account { queued: 1, retired: 15, blocked: 1, ..computes };
        assert_eq!(room(blocks), Room::Workers);
        // A task that does not move may be waiting for another. Waits for locks are shorter than a twentieth of a
        // quantum.
        let waits = [Account { unmoved: 1, ..computes }, Account { blocked_ns: MS / 2, ..computes }];
        for account in waits {
            assert_eq!([(); 40].map(|()| room(account)), [Room::Workers; 40]);
        }
        // Short waits for a lock do not count. The room was reduced too early, so four times the number of looks is
        // needed.
        let until_narrow = (1..).find(|_| room(Account { blocked_ns: MS / 3, ..computes }) == Room::Cores);
        assert_eq!(until_narrow, Some(8));
        // A single worker is awake on the only held core: no task of the program waits for a worker.
        assert_eq!(room(blocks), Room::Workers);
        let until_narrow = (1..).find(|_| room(Account { awake: 1, ..computes }) == Room::Cores);
        assert_eq!(until_narrow, Some(32));
    }

    #[test]
    fn in_a_crowd_of_equals_one_worker_shares_time() {
        let crowd = Account { programs: 16, share_milli: 125, ..beside(1, 1, 9, 0) };
        let mut courtesy = Courtesy::new(Divides::Equal);
        courtesy.enter(Mode::Cores);
        let mut look = |account: Account| {
            let orders = courtesy.quantum(&account);
            (orders.mode, orders.room)
        };
        let (narrow, wide) = ((Mode::Time, Room::One), (Mode::Time, Room::Workers));
        assert_eq!([(); 3].map(|()| look(crowd)), [wide, narrow, narrow]);
        // Tasks wait for a task that no worker has begun.
        assert_eq!(look(Account { queued: 1, retired: 14, blocked: 1, ..crowd }), wide);
        // A crowd ends at fewer programs per core than it begins at.
        assert_eq!(look(Account { programs: 6, share_milli: 333, ..crowd }).0, Mode::Time);
        assert_eq!(look(Account { programs: 4, share_milli: 500, ..beside(5, 9, 9, 0) }).0, Mode::Cores);
        // These programs have different weights, so they are no crowd.
        assert_eq!(look(Account { programs: 16, share_milli: 1200, ..beside(9, 19, 19, 10) }).0, Mode::Cores);
    }

    #[test]
    fn looks_less_often_while_there_is_nothing_to_do_and_in_a_crowd() {
        let mut courtesy = Courtesy::new(Divides::Equal);
        let calm = Account { retired: 15, queued: 9, held: 1, ..beside(10, 10, 10, 10) };
        courtesy.enter(Mode::Cores);
        assert_eq!([(); 4].map(|()| courtesy.quantum(&calm).due), [2, 4, 4, 4]);
        let blocks = Account { blocked: 1, queued: 0, ..calm };
        for changed in [Account { free: 1, ..calm }, blocks, Account { unmoved: 1, ..calm }] {
            assert_eq!(courtesy.quantum(&changed).due, 1, "{changed:?}");
            assert_eq!(courtesy.quantum(&calm).due, 2);
        }
        assert_eq!(courtesy.quantum(&Account { programs: 80, ..calm }).due, 20);
        // In a crowd of programs with equal weight the coordinator looks half as often.
        assert_eq!(courtesy.quantum(&Account { programs: 80, share_milli: 25, ..calm }).due, 40);
    }

    #[test]
    fn a_folded_program_has_room_for_as_many_workers_as_are_worth_it() {
        let mut courtesy = Courtesy::new(Divides::Equal);
        let alone = Account { usable: 8, workers: 8, alone: true, programs: 1, ..beside(40, 40, 40, 0) };
        let mut orders = |steal| {
            let Orders { worth, room, .. } = courtesy.quantum(&Account { steal, ..alone });
            (worth, room)
        };
        assert_eq!(orders(None), (u32::MAX, Room::Workers));
        let steal = StealTime { lasted_ns: 500 * MS, run_ns: 2_000 * MS, steal_ns: 2_000 * MS };
        assert!((0..32).any(|_| orders(Some(steal)) == (4, Room::Cores)));
        assert_eq!(orders(None), (4, Room::Cores));
        let calm = StealTime { run_ns: 4_000 * MS, steal_ns: 0, ..steal };
        assert!((0..20).any(|_| orders(Some(calm)) == (u32::MAX, Room::Workers)));
    }
}
