//! The machine as a whole: `/proc/stat` and `/proc/loadavg` (proc(5)), and what the kernel says of throttling and frequency.

use std::collections::BTreeMap;
use std::fs;

use crate::results::Machine;

/// Processor time since the machine started, in clock ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cpu {
    /// All of it.
    pub total: u64,
    /// Spent waiting for something to do.
    pub idle: u64,
    /// Given by the host to others.
    pub steal: u64,
}

/// The machine at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ticks {
    /// All processors together.
    pub all: Cpu,
    /// Each of them.
    pub by_cpu: BTreeMap<u32, Cpu>,
    /// Times that a quota or heat held something up, since the machine started; `None` where the kernel does not say.
    pub throttled: Option<u64>,
    /// Frequency of the processors, the mean; likewise.
    pub mhz: Option<f64>,
}

impl Cpu {
    /// Of a line of `/proc/stat`, without its name.
    fn parse(fields: &str) -> Self {
        let fields: Vec<u64> = fields.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; guest times are in user and nice already.
        let of = |index: usize| fields.get(index).copied().unwrap_or(0);
        Cpu { total: fields.iter().take(8).sum(), idle: of(3) + of(4), steal: of(7) }
    }

    /// Shares of the time since `begin` that were stolen, at least, and used. A tick is counted when its last part is stolen, and most of it may have been
    /// before `begin`: n ticks are more than n - 1, and one is nothing certain. In a trial of 800 ms one tick is 1.25 %.
    fn since(&self, begin: &Cpu) -> Option<(f64, f64)> {
        let total = self.total.checked_sub(begin.total).filter(|total| *total > 0)? as f64;
        let idle = self.idle.saturating_sub(begin.idle) as f64;
        let steal = self.steal.saturating_sub(begin.steal);
        let used = ((total - idle - steal as f64) / total).max(0.0);
        Some((steal.saturating_sub(1) as f64 / total, used))
    }
}

impl Ticks {
    /// Reads `/proc/stat`.
    pub fn parse(text: &str) -> Option<Self> {
        let all = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let numbered = text.lines().filter_map(|line| line.strip_prefix("cpu")?.split_once(' '));
        let by_cpu = numbered.filter_map(|(number, fields)| Some((number.parse().ok()?, Cpu::parse(fields))));
        Some(Ticks { all: Cpu::parse(all), by_cpu: by_cpu.collect(), ..Ticks::default() })
    }

    /// Those of this machine.
    pub fn here() -> Option<Self> {
        let ticks = Ticks::parse(&fs::read_to_string("/proc/stat").ok()?)?;
        let cpu = |cpu: &u32, file: &str| -> Option<f64> {
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/{file}")).ok()?.trim().parse().ok()
        };
        let each = |file: &str| -> Vec<f64> { ticks.by_cpu.keys().filter_map(|number| cpu(number, file)).collect() };
        let heat: f64 = each("thermal_throttle/core_throttle_count").iter().sum();
        let quota = fs::read_to_string("/sys/fs/cgroup/cpu.stat").ok().as_deref().and_then(throttled);
        let khz = each("cpufreq/scaling_cur_freq");
        let mhz = (!khz.is_empty()).then(|| khz.iter().sum::<f64>() / khz.len() as f64 / 1e3);
        Some(Ticks { throttled: Some(heat as u64 + quota.unwrap_or(0)), mhz, ..ticks })
    }
}

/// Periods in which a quota was used up, of `cpu.stat` of a control group.
pub fn throttled(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse().ok()
}

/// The load average of the last minute, of `/proc/loadavg`.
pub fn load1(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// What happened between two moments.
pub fn between(begin: Option<&Ticks>, end: Option<&Ticks>, load1: Option<f64>) -> Machine {
    let Some((begin, end)) = begin.zip(end) else {
        return Machine { load1, ..Machine::default() };
    };
    let shares = end.all.since(&begin.all);
    let each = end.by_cpu.iter().filter_map(|(cpu, end)| Some((*cpu, end.since(begin.by_cpu.get(cpu)?)?.0)));
    Machine {
        steal: shares.map(|shares| shares.0),
        steal_by_cpu: each.collect(),
        busy: shares.map(|shares| shares.1),
        throttled: end.throttled.zip(begin.throttled).map(|(end, begin)| end.saturating_sub(begin)),
        mhz: end.mhz,
        load1,
    }
}
