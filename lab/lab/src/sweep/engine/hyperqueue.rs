//! HyperQueue: a task array of a running server, submitted with the command `hq` or with the Python package.
//!
//! HyperQueue restarts a task that loses its worker, as often as the task's crash limit allows. A task gets SIGTERM
//! when its worker dies. The task that replaces it waits until the old task has ended.

use std::process::Command;

use comity_console::Failure;

use super::{Array, answers};

/// A Python program that replaces `hq submit` if only HyperQueue's package from PyPI is installed.
const PACKAGE: &str = include_str!("hyperqueue.py");

/// Returns the command that submits the array to the server and waits for its end.
pub fn submission(array: &Array<'_>) -> Result<Command, Failure> {
    if answers("hq", &["--version"]) {
        return Ok(submit(Command::new("hq"), array));
    }
    if !answers("python3", &["-c", "import hyperqueue"]) {
        return Err(Failure::Usage(
            "--engine hyperqueue: there is no 'hq' on the PATH, and python3 has no module 'hyperqueue'. Put \
             HyperQueue's `hq` on the PATH, or install the server's version of the Python package with `pip install \
             hyperqueue`"
                .to_owned(),
        ));
    }
    if let [option, ..] = &array.hyperqueue.options[..] {
        return Err(Failure::Usage(format!(
            "--engine hyperqueue: HyperQueue's Python package does not support '{option}'. Put `hq` on the PATH, or \
             leave out `options` of [hyperqueue]"
        )));
    }
    let mut command = Command::new("python3");
    command.args(["-c", PACKAGE]);
    Ok(submit(command, array))
}

/// Adds the options and the command of a shard, which are the same for `hq` and for the Python program.
fn submit(mut command: Command, array: &Array<'_>) -> Command {
    if let Some(folder) = &array.hyperqueue.server_dir {
        command.arg("--server-dir").arg(folder);
    }
    command.args(["submit", "--wait", "--directives=off", "--stderr=none"]);
    command.arg(format!("--name={}", array.name));
    command.arg(format!("--array={}", array.ids()));
    command.arg(format!("--cpus={}", array.cpus));
    // A task fails when its number of crashes reaches this limit.
    command.arg(format!("--crash-limit={}", array.restarts.saturating_add(1)));
    command.arg("--cwd").arg(&array.folder);
    command.arg("--stdout").arg(array.logs.join("%{TASK_ID}.log"));
    command.args(&array.hyperqueue.options);
    // `exec` replaces the shell by the shard, so that the shard gets SIGTERM when its worker dies.
    let script = format!("exec \"$@\" --shard \"$HQ_TASK_ID/{}\" 2>&1", array.of);
    command.arg("--").args(["sh", "-c", &script, "sh"]).args(&array.command);
    command
}

#[cfg(test)]
mod tests {
    use super::super::super::file::Hyperqueue;
    use super::super::tests::{array, words};
    use super::*;

    #[test]
    fn the_array_is_the_engines_own() {
        let slurm = Default::default();
        let told = Hyperqueue { server_dir: Some("/hq".into()), options: vec!["--time-limit=1h".to_owned()] };
        let words = words(&submit(Command::new("hq"), &array(&told, &slurm, &[1, 2, 5])));
        assert_eq!(
            words,
            [
                "hq",
                "--server-dir",
                "/hq",
                "submit",
                "--wait",
                "--directives=off",
                "--stderr=none",
                "--name=comity-sweep",
                "--array=1-2,5",
                "--cpus=2",
                "--crash-limit=5",
                "--cwd",
                "/here",
                "--stdout",
                "/a b/out/logs/%{TASK_ID}.log",
                "--time-limit=1h",
                "--",
                "sh",
                "-c",
                "exec \"$@\" --shard \"$HQ_TASK_ID/8\" 2>&1",
                "sh",
                "/bin/lab",
                "sweep",
                "/a b/sweep.toml",
            ]
        );
    }
}
