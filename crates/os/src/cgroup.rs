//! The control groups that contain a process.

use std::path::{Path, PathBuf};

/// Returns all groups of `controller` that contain a process, from the process's own group up to the root, in cgroup v1
/// and v2. `membership` and `mounts` are the contents of the process's `cgroup` and `mountinfo` files.
pub(crate) fn groups_in(controller: &str, membership: &str, mounts: &str) -> Vec<(Version, PathBuf)> {
    let of_line = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let version = match controllers {
            "" => Version::Two,
            list if list.split(',').any(|other| other == controller) => Version::One,
            _ => return None,
        };
        let mount = mount_of(version, controller, mounts)?;
        Some(groups_from(&mount, path).into_iter().map(move |group| (version, group)))
    };
    membership.lines().filter_map(of_line).flatten().collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

struct Mount {
    /// The path at which the hierarchy is mounted.
    point: PathBuf,
    /// The part of the hierarchy that is mounted at `point`. A container sees only its own part.
    root: String,
}

/// Finds the hierarchy in `/proc/self/mountinfo`, whose lines are
/// `id parent device root point options… - type source super-options`.
fn mount_of(version: Version, controller: &str, mounts: &str) -> Option<Mount> {
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, _source, options) = (right.next()?, right.next()?, right.next()?);
        let wanted = match version {
            Version::Two => kind == "cgroup2",
            Version::One => kind == "cgroup" && options.split(',').any(|option| option == controller),
        };
        wanted.then(|| Mount { point: point.into(), root: root.to_owned() })
    })
}

fn groups_from(mount: &Mount, path: &str) -> Vec<PathBuf> {
    let below = path.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or(path);
    let own = mount.point.join(below.trim_start_matches('/'));
    own.ancestors().take_while(|group| group.starts_with(&mount.point)).map(Path::to_owned).collect()
}
