//! Tests of tokio's sockets and timers in tasks of this crate.
#![cfg(all(feature = "tokio", not(loom)))]

#[path = "../../runtime/tests/harness/fib.rs"]
mod fib;
mod harness;

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use comity::{ThreadPool, ThreadPoolBuilder};
use comity_flow::{JoinSet, block_on, spawn, spawn_blocking, spawn_in};
use fib::fib;
use harness::{PATIENCE, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};

fn pool() -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(2).build().unwrap()
}

/// Answers each number with its Fibonacci number, which the workers compute. Each connection is a task.
async fn serve(listener: TcpListener, connections: usize) {
    let mut clients = JoinSet::new();
    for _ in 0..connections {
        let (mut stream, _) = listener.accept().await.unwrap();
        clients.spawn(async move {
            assert!(comity::current_thread_index().is_some(), "it is a task of the pool");
            while let Ok(number) = stream.read_u32().await {
                stream.write_u64(fib(number)).await.unwrap();
            }
        });
    }
    clients.join_all().await;
}

async fn ask(address: SocketAddr) -> u64 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut sum = 0;
    for number in 0..15 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        stream.write_u32(number).await.unwrap();
        sum += stream.read_u64().await.unwrap();
    }
    sum
}

/// Runs a server and its clients as tasks of the pool, in the runtime that the caller has entered.
fn talk(pool: &ThreadPool) {
    let listener = spawn_in(pool, async { TcpListener::bind(("127.0.0.1", 0)).await.unwrap() });
    let listener = block_on(listener);
    let address = listener.local_addr().unwrap();
    let clients = 4;
    let server = spawn_in(pool, serve(listener, clients));
    let mut answers = JoinSet::new();
    (0..clients).for_each(|_| answers.spawn_in(pool, ask(address)));
    let all = tokio::time::timeout(PATIENCE, async {
        let sums = answers.join_all().await;
        server.await;
        sums
    });
    assert_eq!(block_on(all).expect("it ends"), [986; 4]);
}

#[test]
fn sockets_and_timers_work_in_the_runtime_that_is_entered() {
    let pool = pool();
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let entered = runtime.enter();
    talk(&pool);
    drop(entered);
    pool.shutdown();
}

#[test]
fn sockets_and_timers_work_in_the_driver_of_this_crate() {
    let pool = pool();
    let driver = comity_flow::tokio::driver().unwrap();
    assert_eq!(comity_flow::tokio::driver().unwrap().id(), driver.id(), "there is one");
    let _entered = driver.enter();
    talk(&pool);
    pool.shutdown();
}

#[test]
fn tasks_of_a_tokio_program_are_in_its_runtime_with_all_that_they_start() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let id = runtime.handle().id();
    runtime.block_on(async {
        let task = spawn(async {
            let inner = spawn(async { Handle::current().id() });
            // The call waits for a tokio future, as a blocking call of tokio can.
            let blocking = spawn_blocking(|| {
                let handle = Handle::current();
                handle.block_on(tokio::time::sleep(Duration::from_millis(1)));
                handle.id()
            });
            // Futures spawned on tokio's own threads are in the runtime too.
            let outside = tokio::spawn(async { Handle::current().id() });
            [Handle::current().id(), inner.await, blocking.await, outside.await.unwrap()]
        });
        assert_eq!(task.await, [id; 4]);
    });
    // The destructor of a future also runs inside the runtime.
    struct Asks(std::sync::mpsc::Sender<bool>);
    impl Drop for Asks {
        fn drop(&mut self) {
            let _ = self.0.send(Handle::try_current().is_ok());
        }
    }
    let (asked, answer) = std::sync::mpsc::channel();
    let entered = runtime.enter();
    let asks = Asks(asked);
    let task = spawn(async move {
        std::future::pending::<()>().await;
        drop(asks);
    });
    drop(entered);
    drop(task);
    assert_eq!(answer.recv_timeout(PATIENCE), Ok(true));
}

/// Checks the panic message that the documentation quotes.
#[test]
fn without_a_runtime_tokio_says_so() {
    let task = spawn(async { tokio::time::sleep(Duration::ZERO).await });
    eventually("it has ended", || task.is_finished());
    let payload = catch_unwind(AssertUnwindSafe(|| block_on(task))).expect_err("it panics");
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap();
    assert!(text.contains("there is no reactor running"), "{text}");
}
