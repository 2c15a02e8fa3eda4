//! Streams and events.

use crate::state::{Event, Out, State, driver};
use crate::status::{INVALID_HANDLE, INVALID_VALUE, NOT_READY, Outcome};
use crate::work::{Mark, Progress, Work};

const NON_BLOCKING: u32 = 1;

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamCreate(stream: Out<u64>, flags: u32) -> u32 {
    driver("cuStreamCreate", |state| {
        let device = state.device()?;
        if flags > NON_BLOCKING {
            return Err(INVALID_VALUE);
        }
        let handle = state.handle();
        stream.put(handle, INVALID_VALUE)?;
        state.streams.create(handle, device, flags & NON_BLOCKING == 0);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamDestroy_v2(stream: u64) -> u32 {
    driver("cuStreamDestroy_v2", |state| {
        if stream <= 2 {
            return Err(state.forbid(INVALID_HANDLE, "a default stream cannot be destroyed"));
        }
        let stream = state.stream(stream)?;
        state.streams.destroy(stream);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamSynchronize(stream: u64) -> u32 {
    driver("cuStreamSynchronize", |state| {
        let stream = state.stream(stream)?;
        state.host_waits += 1;
        state.wait(&state.streams.end(stream))
    })
}

/// Makes later work on the stream wait for the event's latest record as of now. An event without
/// one is complete.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamWaitEvent(stream: u64, event: u64, flags: u32) -> u32 {
    driver("cuStreamWaitEvent", |state| {
        let stream = state.stream(stream)?;
        let mark = find(state, event)?.record.clone();
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        state.enqueue(stream, Work::Await(mark));
        Ok(())
    })
}

fn find(state: &mut State, event: u64) -> Outcome<&mut Event> {
    if !state.events.contains_key(&event) {
        return Err(state.forbid(INVALID_HANDLE, format_args!("{event:#x} is no event")));
    }
    Ok(state.events.get_mut(&event).expect("it is there"))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventCreate(event: Out<u64>, flags: u32) -> u32 {
    driver("cuEventCreate", |state| {
        let device = state.device()?;
        if flags > 7 {
            return Err(INVALID_VALUE);
        }
        let handle = state.handle();
        event.put(handle, INVALID_VALUE)?;
        state.events.insert(handle, Event { device, record: Mark::default() });
        Ok(())
    })
}

/// Waits for the event that are queued still take place.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventDestroy_v2(event: u64) -> u32 {
    driver("cuEventDestroy_v2", |state| {
        state.device()?;
        find(state, event)?;
        state.events.remove(&event);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventRecord(event: u64, stream: u64) -> u32 {
    driver("cuEventRecord", |state| {
        let device = state.device()?;
        let stream = state.stream(stream)?;
        let event = find(state, event)?;
        if event.device != device {
            return Err(state.forbid(INVALID_HANDLE, "event and stream are of different devices"));
        }
        // A new mark: waits for an earlier record keep waiting for that one.
        event.record = Mark { progress: Progress::default(), number: 1, stream };
        let mark = event.record.clone();
        state.enqueue(stream, Work::Signal(mark));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventQuery(event: u64) -> u32 {
    driver("cuEventQuery", |state| {
        state.device()?;
        let mark = find(state, event)?.record.clone();
        if state.poll(&mark)? { Ok(()) } else { Err(NOT_READY) }
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventSynchronize(event: u64) -> u32 {
    driver("cuEventSynchronize", |state| {
        state.device()?;
        let mark = find(state, event)?.record.clone();
        state.host_waits += 1;
        state.wait(&mark)
    })
}
