//! The written form of the virtual machines of a scenario.

use serde::{Deserialize, Serialize};

use super::{Machine, Model, Submission, Written, bounded};
use crate::hypervisor::{Scheduling, Share};
use crate::threads::Host;
use crate::threads::linux::Linux;

/// A virtual machine. Its programs refer to it by its name.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenVm {
    /// The name of the virtual machine.
    pub name: String,
    /// The number of virtual CPUs.
    pub cpus: u32,
    /// The weight of the virtual machine relative to others.
    #[serde(default = "usual")]
    pub weight: u32,
    /// The maximum part of its time for which a virtual CPU may have a physical CPU, in hundredths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<u32>,
    /// The guest's kernel. Without it, threads take equal turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linux: Option<Linux>,
    /// The guest's [`Machine::directed_yield`].
    #[serde(default)]
    pub directed_yield: bool,
    /// True if the hypervisor tells the guest its steal time.
    #[serde(default)]
    pub steal_time: bool,
    /// True if the guest has a core table of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<bool>,
}

/// Xen's default weight.
fn usual() -> u32 {
    256
}

impl WrittenVm {
    pub(super) fn share(&self) -> Share {
        Share { vcpus: self.cpus as usize, weight: self.weight, cap: self.cap }
    }

    fn check(&self, machine: &Machine, scheduler: Scheduling) -> Result<(), String> {
        let place = |key: &str| format!("{key} of virtual machine '{}'", self.name);
        bounded(&place("cpus"), self.cpus.into(), 1, Host::MOST_CORES as u64)?;
        if scheduler == Scheduling::CoScheduling && self.cpus > machine.processors {
            return Err(format!(
                "{} is {}: under co-scheduling all virtual CPUs run at once, and machine.processors is {}",
                place("cpus"),
                self.cpus,
                machine.processors
            ));
        }
        bounded(&place("weight"), self.weight.into(), 1, 65_535)?;
        if let Some(cap) = self.cap {
            bounded(&place("cap"), cap.into(), 1, 100)?;
            if scheduler == Scheduling::CoScheduling {
                return Err(format!("{}: co-scheduling has no caps. Leave it out", place("cap")));
            }
        }
        let Some(linux) = &self.linux else { return Ok(()) };
        linux.check(self.cpus).map_err(|why| format!("virtual machine '{}': {why}", self.name))?;
        if linux.threads_per_core > 1 {
            return Err(format!(
                "{}: a hypervisor does not tell guests which virtual CPUs share a core. Leave threads_per_core out",
                place("linux")
            ));
        }
        Ok(())
    }
}

impl Written {
    /// Returns the machines on which programs run: the virtual machines, or the only machine if there is no
    /// hypervisor.
    pub(super) fn guests(&self) -> Vec<Machine> {
        if self.machine.vmm.is_none() {
            return vec![self.machine.clone()];
        }
        let guest = |vm: &WrittenVm| Machine {
            processors: vm.cpus,
            linux: vm.linux,
            directed_yield: vm.directed_yield,
            table: vm.table != Some(false),
            ..self.machine.clone()
        };
        self.vms.iter().map(guest).collect()
    }

    /// Returns the index in [`Written::guests`] of the machine on which a program runs.
    ///
    /// # Errors
    /// A message that says why the program runs on no machine.
    pub(super) fn guest_of(&self, program: &Submission) -> Result<usize, String> {
        let known = || self.vms.iter().map(|vm| vm.name.as_str()).collect::<Vec<_>>().join(", ");
        match (&self.machine.vmm, &program.vm) {
            (None, None) => Ok(0),
            (None, Some(vm)) => Err(format!(
                "vm of program '{}' is '{vm}', but the machine has no hypervisor. Write [machine.vmm], or leave it out",
                program.name
            )),
            (Some(_), None) => Err(format!(
                "program '{}' has no virtual machine, and under a hypervisor each program needs one. Write vm, one of \
                 {}",
                program.name,
                known()
            )),
            (Some(_), Some(vm)) => self.vms.iter().position(|one| one.name == *vm).ok_or_else(|| {
                format!("vm of program '{}' is '{vm}'; the virtual machines are {}", program.name, known())
            }),
        }
    }

    pub(super) fn check_vms(&self) -> Result<(), String> {
        let Written { machine, vms, .. } = self;
        let Some(vmm) = &machine.vmm else {
            return match vms.first() {
                Some(vm) => Err(format!(
                    "'{}' is a virtual machine, but the machine has no hypervisor. Write [machine.vmm], or leave \
                     [[vms]] out",
                    vm.name
                )),
                None => Ok(()),
            };
        };
        if machine.model != Model::Host {
            return machine.only_on_a_host("machine.vmm");
        }
        vmm.check(machine.processors)?;
        for (key, is_written) in
            [("linux", machine.linux.is_some()), ("directed_yield", machine.directed_yield), ("table", !machine.table)]
        {
            if is_written {
                return Err(format!(
                    "machine.{key}: under a hypervisor each guest has its own {key}. Write it in [[vms]]"
                ));
            }
        }
        bounded("the number of virtual machines", vms.len() as u64, 1, 64)?;
        for (nth, vm) in vms.iter().enumerate() {
            if vms[..nth].iter().any(|other| other.name == vm.name) {
                return Err(format!("two virtual machines are called '{}'. Give each its own name", vm.name));
            }
            vm.check(machine, vmm.scheduler)?;
        }
        Ok(())
    }

    /// Checks that a guest with a program whose policy shares cores states whether it has a core table.
    pub(super) fn check_table(&self, guest: usize, program: &Submission) -> Result<(), String> {
        let Some(vm) = self.vms.get(guest).filter(|vm| vm.table.is_none()) else { return Ok(()) };
        Err(format!(
            "policy of program '{}': {} shares cores through the core table, but each virtual machine has its own \
             table. Write table = true in virtual machine '{}' for a table of its own, or table = false for none, or \
             choose a policy that needs no table",
            program.name, program.policy, vm.name
        ))
    }
}
