//! Slurm: a job array.
//!
//! Slurm requeues a task that loses its node. If a signal kills the shard of a task, the task requests the requeue
//! itself, because for Slurm a task whose script ends is done, with any exit code.

use std::process::Command;

use comity_console::Failure;

use super::{Array, answers};

/// Returns the command that submits the array to the controller and waits for its end.
pub fn submission(array: &Array<'_>) -> Result<Command, Failure> {
    if !answers("sbatch", &["--version"]) {
        return Err(Failure::Usage(
            "--engine slurm: there is no 'sbatch' on the PATH. Run this on a node from which jobs are submitted, or \
             install Slurm's commands there (Debian: slurm-client)"
                .to_owned(),
        ));
    }
    Ok(submit(array))
}

fn submit(array: &Array<'_>) -> Command {
    let mut command = Command::new("sbatch");
    command.args(["--wait", "--requeue", "--open-mode=append"]);
    command.arg(format!("--job-name={}", array.name));
    command.arg(format!("--array={}", array.ids()));
    command.arg(format!("--cpus-per-task={}", array.cpus));
    command.arg("--chdir").arg(&array.folder);
    command.arg("--output").arg(array.logs.join("%a.log"));
    command.args(&array.slurm.options);
    command.arg("/dev/stdin").args(&array.command);
    command
}

/// Returns the script of a task. Its arguments are the command of a shard.
pub fn script(array: &Array<'_>) -> String {
    let (of, restarts) = (array.of, array.restarts);
    format!(
        "#!/bin/sh
\"$@\" --shard \"$SLURM_ARRAY_TASK_ID/{of}\"
status=$?
if [ $status -gt 128 ] && [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt {restarts} ]; then
    echo \"killed ($status): queued again\"
    # The controller ends this script.
    scontrol requeue \"${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID\" && sleep 60
fi
exit $status
"
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::file::Slurm;
    use super::super::tests::{array, words};
    use super::*;

    #[test]
    fn the_array_is_the_engines_own() {
        let hyperqueue = Default::default();
        let told = Slurm { options: vec!["--partition=short".to_owned()] };
        let words = words(&submit(&array(&hyperqueue, &told, &[3])));
        assert_eq!(
            words,
            [
                "sbatch",
                "--wait",
                "--requeue",
                "--open-mode=append",
                "--job-name=comity-sweep",
                "--array=3",
                "--cpus-per-task=2",
                "--chdir",
                "/here",
                "--output",
                "/a b/out/logs/%a.log",
                "--partition=short",
                "/dev/stdin",
                "/bin/lab",
                "sweep",
                "/a b/sweep.toml",
            ]
        );
    }

    /// Runs the script in a shell that has the engine's variables, and a `scontrol` that records its words.
    fn run(restart: &str, shard: &str) -> (Option<i32>, String) {
        let (hyperqueue, slurm) = Default::default();
        let folder = tempfile::tempdir().unwrap();
        // A shell function replaces the command `scontrol`.
        let script = format!(
            "scontrol() {{ echo \"$@\" >'{0}/told'; false; }}\n{1}",
            folder.path().display(),
            script(&array(&hyperqueue, &slurm, &[3]))
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", "sh", "-c", shard, "sh"]);
        command.env("SLURM_ARRAY_TASK_ID", "3").env("SLURM_ARRAY_JOB_ID", "70").env("SLURM_RESTART_COUNT", restart);
        let status = command.stdout(std::process::Stdio::null()).status().unwrap();
        (status.code(), std::fs::read_to_string(folder.path().join("told")).unwrap_or_default())
    }

    #[test]
    fn a_killed_shard_is_queued_again_and_a_failed_one_is_not() {
        assert_eq!(run("0", "[ \"$*\" = '--shard 3/8' ]"), (Some(0), String::new()));
        assert_eq!(run("0", "exit 2"), (Some(2), String::new()));
        assert_eq!(run("3", "kill -9 $$"), (Some(137), "requeue 70_3\n".to_owned()));
        assert_eq!(run("4", "kill -9 $$"), (Some(137), String::new()));
    }
}
