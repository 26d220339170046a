//! The fast path allocates nothing: not on entry, not at the end, not when a window closes.
//!
//! The allocator counts for each thread apart, so that the test harness does not disturb the count.
#![allow(unsafe_code, reason = "a global allocator cannot be written without it; the library forbids it")]

#[cfg(feature = "sim")]
#[path = "allocations/simulator.rs"]
mod simulator;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use tidegate::{Admit, Bounds, Class, Limiter, Outcome, Share};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn note() {
    // A thread that is ending has no counter any more; nobody reads it either.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note();
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

fn limiter() -> Limiter {
    let limiter = Limiter::builder("allocations").bounds(1, 100).initial(50).build().unwrap();
    // Warm-up: the thread's own counters, the clock, the first windows and decisions.
    for _ in 0..200_000 {
        limiter.try_acquire().unwrap().finish(Outcome::Success);
    }
    limiter
}

const CALLS: usize = 100_000;

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(black_box(Box::new(1)))), 1);
}

#[test]
fn owned_permits_allocate_nothing() {
    let limiter = limiter();
    let decided = limiter.decisions().first().map(|newest| newest.at);
    let count = allocations(|| {
        for _ in 0..CALLS {
            limiter.try_acquire().unwrap().finish(Outcome::Success);
        }
    });
    assert_eq!(count, 0);
    assert_ne!(limiter.decisions().first().map(|newest| newest.at), decided, "windows closed meanwhile");
}

#[test]
fn borrowed_permits_allocate_nothing() {
    let limiter = limiter();
    let count = allocations(|| {
        for _ in 0..CALLS {
            limiter.try_acquire_ref().unwrap().finish(Outcome::Success);
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn other_ends_and_full_requests_allocate_nothing() {
    let limiter = limiter();
    let admit = Admit::new().class("query").tenant("acme").weight(3);
    let count = allocations(|| {
        for n in 0..CALLS {
            let mut permit = limiter.try_acquire_with(&admit).unwrap();
            match n % 4 {
                0 => drop(permit),
                1 => permit.finish(Outcome::Throttled),
                2 => permit.observe(Outcome::Success),
                _ => {
                    permit.observe(Outcome::Success);
                    permit.finish(Outcome::Fault);
                }
            }
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn classes_allocate_nothing_neither_by_name_nor_by_handle_nor_when_the_limit_is_divided_anew() {
    let class = |n: u32| Class::new(format!("class-{n}")).reserve(Share::Fraction(0.02)).cap(Share::Fraction(0.9));
    let builder = Limiter::builder("allocations").bounds(1, 100).initial(50);
    let limiter = (0..31).map(class).fold(builder, |builder, class| builder.class(class)).build().unwrap();
    let handle = limiter.class_id("class-7").unwrap();
    let admits =
        [Admit::new(), Admit::new().class("class-30"), Admit::new().class("unknown"), Admit::new().class_id(handle)];
    for n in 0..200_000 {
        limiter.try_acquire_with(&admits[n % 4]).unwrap().finish(Outcome::Success);
    }
    let count = allocations(|| {
        for n in 0..CALLS {
            limiter.try_acquire_with(&admits[n % 4]).unwrap().finish(Outcome::Success);
            if n % 1000 == 0 {
                limiter.set_bounds(Bounds::new(1, 50 + n as u32 / 1000).unwrap());
            }
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn an_acquire_that_need_not_wait_allocates_nothing() {
    let limiter = limiter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let count = runtime.block_on(async {
        let before = ALLOCATIONS.with(Cell::get);
        for _ in 0..CALLS {
            limiter.acquire(Admit::new()).await.unwrap().finish(Outcome::Success);
        }
        ALLOCATIONS.with(Cell::get) - before
    });
    assert_eq!(count, 0);
}

#[test]
fn units_of_a_ceiling_that_are_there_allocate_nothing() {
    let ceiling = tidegate::Ceiling::builder("partner").rate(1e6).burst(1 << 30).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let count = runtime.block_on(async {
        let before = ALLOCATIONS.with(Cell::get);
        for _ in 0..CALLS {
            ceiling.try_take(1).unwrap().observe(Outcome::Success);
            ceiling.take(2, None).await.unwrap().refund();
        }
        ALLOCATIONS.with(Cell::get) - before
    });
    assert_eq!(count, 0);
}
