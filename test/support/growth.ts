/**
 * Families of inputs that grow: the same shape, sixteen times larger. What one costs grows with its length and hardly faster, by processor time, so that a busy machine
 * does not change it.
 */
import type { Test } from 'tap'

/** Of an input of a quarter of the size, this often at most; the square would be 16. */
const GROWTH = 9
/** What is less says nothing: what a first call loads takes a second where two processors are one with two threads, and something runs on the other. */
const FLOOR_MS = 3000
const LIMIT_MS = 10_000

/** Makes an input of about so many bytes. */
export type Family<T> = (bytes: number) => T

export interface GrowthOptions {
  /** Bytes of the largest input. */
  bytes: number
  limitMs?: number
}

/** Inputs of a sixteenth, a quarter and the whole of `bytes`. @param cost takes one, and answers what it took in ms of processor time. */
export async function grows(
  t: Test,
  name: string,
  { bytes, limitMs = LIMIT_MS }: GrowthOptions,
  cost: (bytes: number) => number | Promise<number>,
): Promise<void> {
  let before = 0
  for (const size of [bytes >> 4, bytes >> 2, bytes]) {
    const ms = await cost(size)
    const allowed = Math.min(limitMs, Math.max(FLOOR_MS, before * GROWTH))
    t.ok(ms <= allowed, `${name}, ${size} bytes: ${Math.round(ms)} ms, ${Math.round(before)} ms for a quarter of it`)
    // A longer one would take for ever.
    if (ms > allowed) return
    before = ms
  }
}

/** What an act takes of this process' processor time, in ms. */
export async function processorMsOf(act: () => unknown): Promise<number> {
  const before = process.cpuUsage()
  await act()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

/** An item again and again, up to about so many bytes. */
export const filled = (bytes: number, item: string | ((i: number) => string), between = ''): string => {
  if (typeof item === 'string' && between === '') return item.repeat(Math.max(1, Math.floor(bytes / Buffer.byteLength(item))))
  const items: string[] = []
  for (let length = 0, i = 0; length < bytes; i++) {
    const text = typeof item === 'string' ? item : item(i)
    items.push(text)
    length += Buffer.byteLength(text) + between.length
  }
  return items.join(between)
}
