//! Workers that rest together, beside pushes without a fence: the barrier is as asymmetric as `membarrier` is.
//!
//! Elsewhere loom's threads have a full fence in the place of each half. There a worker that fences and looks for itself sees all that it
//! may rely on another to see (Lemma 12), so these tests are the ones that notice where that other fails.

use loom::sync::Mutex;

use super::*;

/// A barrier that comes, for the one thread that pushes, before a push or after it. (Where it comes in the middle, it helps both sides.)
#[derive(Clone, Default)]
struct Asymmetric {
    /// Held during a push.
    interrupts: Arc<Mutex<()>>,
}

impl Platform for Asymmetric {
    type Bool = <Threads as Platform>::Bool;
    type Word = <Threads as Platform>::Word;
    type Counter = <Threads as Platform>::Counter;
    type Parker = FutexWord;
    type Lock<T: 'static> = <Threads as Platform>::Lock<T>;
    type Once<T> = <Threads as Platform>::Once<T>;

    fn bool(&self, owner: Option<WorkerId>, value: bool) -> Self::Bool {
        Threads.bool(owner, value)
    }

    fn word(&self, owner: Option<WorkerId>, value: u32) -> Self::Word {
        Threads.word(owner, value)
    }

    fn counter(&self) -> Self::Counter {
        Threads.counter()
    }

    fn parker(&self, owner: WorkerId, value: u32) -> FutexWord {
        Threads.parker(owner, value)
    }

    fn lock<T: 'static>(&self, value: T) -> Self::Lock<T> {
        Threads.lock(value)
    }

    fn once<T>(&self) -> Self::Once<T> {
        Threads.once()
    }

    fn fence(&self, order: Ordering) {
        fence(order);
    }

    fn light(&self) {}

    fn heavy(&self) -> bool {
        fence(Ordering::SeqCst);
        drop(self.interrupts.lock().unwrap());
        fence(Ordering::SeqCst);
        true
    }
}

/// A push onto the deque of `me`: the task and the look at the bell, with no fence between them.
fn push(pool: &Pool<Asymmetric>, interrupts: &Mutex<()>, me: WorkerId) {
    let uninterrupted = interrupts.lock().unwrap();
    pool.deque.fetch_add(1, Ordering::Release);
    let heard = pool.bells[me.index()].load(Ordering::Relaxed);
    drop(uninterrupted);
    if heard {
        pool.answer_bell(me);
    }
}

/// Two thieves, two pushes, and one barrier at the least: neither task is left while a worker sleeps.
#[test]
fn loom_one_barrier_serves_two_that_rest_together() {
    explore(3, || {
        let platform = Asymmetric::default();
        let interrupts = platform.interrupts.clone();
        let pool = Pool::on(platform, 3, Waking::Hungry);
        pool.sleep.publish_busy(W0);
        let thieves = [W1, W2].map(|me| {
            let pool = pool.clone();
            thread::spawn(move || pool.find(me))
        });
        push(&pool, &interrupts, W0);
        push(&pool, &interrupts, W0);
        for thief in thieves {
            thief.join().unwrap();
        }
    });
}
