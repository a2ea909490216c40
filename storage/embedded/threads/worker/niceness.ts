/** How far engine threads and processes step back behind the main thread. */
import { constants, getPriority, setPriority } from 'node:os'

/**
 * Makes a process, or the calling thread where `pid` is 0 (on Linux; elsewhere its process), nicer than the calling thread by so much. It counts from where
 * that stands, for the server itself may be nice: nothing comes forward, which systems let no usual account do.
 */
export function stepBack(by: number, pid = 0): void {
  try {
    setPriority(pid, Math.min(constants.priority.PRIORITY_LOW, getPriority() + by))
  } catch {
    // A process that has ended, which is reported elsewhere; or a sandbox allows no change. All works without, ingest waits longer.
  }
}
