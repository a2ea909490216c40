/** What Linux says of a process. */

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const MIB = 1 << 20
let ticks = 0

/** Seconds of processor time, of all threads and of the children that have ended. */
export function processorSeconds(pid: number): number {
  ticks ||= Number(execFileSync('getconf', ['CLK_TCK']).toString())
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const [, , , , , , , , , , , user, system, childUser, childSystem] = text.slice(text.lastIndexOf(')')).split(' ')
  return [user, system, childUser, childSystem].reduce((sum, part) => sum + Number(part), 0) / ticks
}

/** Resident memory in MiB: now, and at most since the start. */
export function resident(pid: number): { now: number; peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const read = (name: string): number => (Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1] ?? 0) * 1024) / MIB
  return { now: read('VmRSS'), peak: read('VmHWM') }
}
