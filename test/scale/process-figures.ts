/** What Linux says of a process. */

import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

const MIB = 1 << 20
let ticks = 0

/** Seconds of processor time, of all threads and of the children that have ended. */
export function processorSeconds(pid: number): number {
  ticks ||= Number(execFileSync('getconf', ['CLK_TCK']).toString())
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const [, , , , , , , , , , , user, system, childUser, childSystem] = text.slice(text.lastIndexOf(')')).split(' ')
  return [user, system, childUser, childSystem].reduce((sum, part) => sum + Number(part), 0) / ticks
}

/** Milliseconds of processor time, of the main thread and of the others that run still. */
export function threadTimes(pid: number): { main: number; others: number } {
  const times = { main: 0, others: 0 }
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      const ms = Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]) / 1e6
      times[thread === String(pid) ? 'main' : 'others'] += ms
    } catch {
      // It has just ended.
    }
  }
  return times
}

/** Resident memory in MiB: now, and at most since the start. */
export function resident(pid: number): { now: number; peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const read = (name: string): number => (Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1] ?? 0) * 1024) / MIB
  return { now: read('VmRSS'), peak: read('VmHWM') }
}
