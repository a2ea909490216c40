import { performance } from 'node:perf_hooks'

/** @returns says which part of the time since its last call, or since this one, the calling thread was at work: 0 to 1. */
export function loopUtilization(): () => number {
  let mark = performance.eventLoopUtilization()
  return () => {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, mark)
    mark = now
    return utilization
  }
}
