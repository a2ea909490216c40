/**
 * V8 begins to mark a heap when there is less room up to its limit than the young generation may take. A heap of 20 MB has a limit of 33 to 45 MB, and its young generation
 * 16 to 32: of such a heap it collects all, again and again, though only the young generation has garbage. Beside writes at full speed that was a sixth of the processor time.
 */
import { setFlagsFromString } from 'node:v8'

/** Percent of the room between what was left after the last collection and the limit: marking begins soon, and at once. The rest is what is allocated while it goes on. */
const SOON = 60
const AT_ONCE = 80

/** From here on, heaps of this process are collected as a whole when their old generation has grown. Buffers outside of them count as they always did. */
export function collectWhenGrown(): void {
  setFlagsFromString(`--incremental-marking-soft-trigger=${SOON}`)
  setFlagsFromString(`--incremental-marking-hard-trigger=${AT_ONCE}`)
}
