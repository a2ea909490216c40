/** Processes of a server and the processor time that they have used, as /proc says. */
import { readdirSync, readFileSync } from 'node:fs'

const TICK_MS = 10

/** A process and its children. */
export function family(pid: number): number[] {
  const children = Array.from(processes()).filter(({ parent }) => parent === pid)
  return [pid, ...children.map((child) => child.pid)]
}

/** Processor time that a process and its children have used, those that have ended included. */
export function processorMs(pid: number): number {
  return family(pid).reduce((sum, each) => sum + ownMs(each), 0)
}

/** With that of children that have ended. */
function ownMs(pid: number): number {
  const fields = fieldsOf(pid)
  return fields === undefined ? 0 : (Number(fields[11]) + Number(fields[12]) + Number(fields[13]) + Number(fields[14])) * TICK_MS
}

function* processes(): Generator<{ pid: number; parent: number }> {
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const fields = fieldsOf(Number(name))
    if (fields !== undefined) yield { pid: Number(name), parent: Number(fields[1]) }
  }
}

/** Those of /proc/PID/stat from the state on. */
function fieldsOf(pid: number): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return undefined // it has ended
  }
}
