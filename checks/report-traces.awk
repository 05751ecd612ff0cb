# Two timelines like those that programs write under COMITY_TRACE, into the files `first` and `second`. Two programs
# share eight cores; the second comes later and is killed. There are about `events` tasks of each worker of the
# first. Every time is in nanoseconds here.
function us(ns) { return sprintf("%.3f", ns / 1000) }
function put(text) { print (begun[out]++ ? text "," : "[\n" text ",") > out }
function names(pid, name, workers, policy,    w) {
    put(sprintf("{\"name\":\"comity_trace\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"args\":{\"version\":1}}", pid))
    put(sprintf("{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"%s\"}}", pid, name))
    for (w = 0; w < workers; w++)
        put(sprintf("{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"pool 1 worker %d (%s)\"}}", pid, pid + 1 + w, w, policy))
}
function slice(pid, w, state, from, to) {
    if (to > from)
        put(sprintf("{\"name\":\"%s\",\"cat\":\"worker\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%s,\"dur\":%s}", state, pid, pid + 1 + w, us(from), us(to - from)))
}
function instant(pid, w, what, at) {
    put(sprintf("{\"name\":\"%s\",\"cat\":\"worker\",\"ph\":\"i\",\"s\":\"t\",\"pid\":%d,\"tid\":%d,\"ts\":%s,\"args\":{\"from\":0}}", what, pid, pid + 1 + w, us(at)))
}
function preempted(pid, w, from, to,    end) {
    for (end = 0; end < 2; end++)
        put(sprintf("{\"name\":\"preempted\",\"cat\":\"preempted\",\"ph\":\"%s\",\"id\":%d,\"pid\":%d,\"tid\":%d,\"ts\":%s}", end ? "e" : "b", pid + 1 + w, pid, pid + 1 + w, us(end ? to : from)))
}
function core(pid, nth, ph, at, how) {
    put(sprintf("{\"name\":\"core %d\",\"cat\":\"core\",\"ph\":\"%s\",\"id\":%d,\"pid\":%d,\"tid\":0,\"ts\":%s,\"args\":{\"how\":\"%s\"}}", nth, ph, nth, pid, us(at), how))
}
# A worker computes and steals by turns, with tasks of many lengths, until it ends.
function works(pid, w, from, to, slices,    at, task, thief, mean) {
    mean = (to - from) / slices
    for (at = from; at < to; at += task + thief) {
        task = int(mean * (0.2 + 1.4 * rand()) * (rand() < 0.02 ? 8 : 0.86)); thief = int(mean * 0.25 * rand())
        if (at + task + thief > to || task + thief == 0) { slice(pid, w, "task", at, to); break }
        slice(pid, w, "task", at, at + task)
        slice(pid, w, "thief", at + task, at + task + thief)
        if (rand() < 0.6) instant(pid, w, rand() < 0.9 ? "steal" : "mug", at + task + thief)
    }
}
BEGIN {
    srand(7)
    start = 86400 * 1e9; ms = 1e6
    whole = 400 * ms; comes = 120 * ms; leaves = 310 * ms
    out = first
    names(4100, "mergesort", 8, "comity")
    for (w = 0; w < 8; w++) {
        core(4100, w, "b", start + (3 + w) * ms, "claimed")
        slice(4100, w, "asleep", start, start + 2 * ms)
        if (w < 4) {
            works(4100, w, start + 2 * ms, start + whole, events)
            preempted(4100, w, start + comes + (5 + w) * ms, start + comes + (12 + 2 * w) * ms)
        } else {
            core(4100, w, "e", start + comes + (8 + w) * ms, "lost")
            works(4100, w, start + 2 * ms, start + comes + (8 + w) * ms, events / 3)
            slice(4100, w, "retired", start + comes + (8 + w) * ms, start + leaves + (6 + w) * ms)
            core(4100, w, "b", start + leaves + (6 + w) * ms, "taken back")
            works(4100, w, start + leaves + (6 + w) * ms, start + whole, events / 4)
        }
        core(4100, w, "e", start + whole, "released")
    }
    for (nth = 0; nth < 2; nth++)
        put(sprintf("{\"name\":\"%s\",\"cat\":\"mode\",\"ph\":\"%s\",\"id\":\"comity\",\"pid\":4100,\"tid\":0,\"ts\":%s}", "holds cores", nth ? "e" : "b", us(start + (nth ? whole : comes))))
    put("{\"name\":\"lost\",\"cat\":\"trace\",\"ph\":\"i\",\"s\":\"p\",\"pid\":4100,\"tid\":0,\"ts\":" us(start + whole) ",\"args\":{\"events\":12}}")
    printf "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":4100,\"tid\":4101,\"args\":{\"name\":\"pool 1 worker 0 (comity)\"}}\n]\n" > out
    close(out)
    out = second
    names(4200, "cg", 8, "comity")
    for (w = 0; w < 8; w++) {
        slice(4200, w, w < 4 ? "thief" : "asleep", start + comes, start + comes + 9 * ms)
        if (w >= 4) core(4200, w, "b", start + comes + (9 + w) * ms, "claimed")
        if (w < 4) {
            slice(4200, w, "retired", start + comes + 9 * ms, start + leaves)
        } else {
            slice(4200, w, "asleep", start + comes + 9 * ms, start + comes + (9 + w) * ms)
            works(4200, w, start + comes + (9 + w) * ms, start + leaves, events / 3)
            if (w > 5) core(4200, w, "e", start + leaves, "lost")
        }
    }
    # Killed while it wrote.
    printf "{\"name\":\"task\",\"cat\":\"worker\",\"ph\":\"X\",\"pid\":42" > out
}
