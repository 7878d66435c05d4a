use super::*;

#[test]
fn processors_and_ports_are_read_as_the_kernel_writes_them() {
    assert_eq!(cpu_list(" 0-2,5\n"), [0, 1, 2, 5]);
    assert!(cpu_list("").is_empty());
    let table = "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 0\n   1: 00000000000000000000000001000000:0050 0:0 0A\n";
    assert_eq!(used_ports(table), BTreeSet::from([80, 8080]));
}

#[test]
fn a_master_and_its_worker_are_two_processes_with_all_their_threads() {
    let stat = |pid: u32, user: u64, threads: u32| {
        format!("S {pid} (a (b) c) S 1 7 7 0 -1 0 0 0 0 0 {user} 30 0 0 20 0 {threads} 0 900 0 250 0")
    };
    let text = format!(
        "P 7\n{}\nF 12\nC 1000 5 1\nvoluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t1\nP 8\n{}\nF 9\nC 500 5 1\nC 700 5 1\n\
         voluntary_ctxt_switches:\t10\nnonvoluntary_ctxt_switches:\t2\nvoluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t0\nP 9\nS \nF 0\n",
        stat(7, 20, 1),
        stat(8, 40, 2)
    );
    let found = processes(&text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!((found[0].user_ticks, found[0].system_ticks, found[0].on_cpu_ns), (20, 30, Some(1000)));
    assert_eq!((found[1].on_cpu_ns, found[1].threads, found[1].descriptors), (Some(1200), 2, Some(9)));
    assert_eq!((found[1].voluntary, found[1].involuntary, found[1].rss_pages), (11, 2, 250));
}
