/** Lines of a log in a database: texts that hardly repeat, written out of order. */
import { fill, type TestPoint } from '../../conformance/points.ts'
import type { EmbeddedEngine } from '../engine.ts'
import type { Decoded } from './decoded-job.ts'

const JOB = new URL('./decoded-job.ts', import.meta.url)
const POOL = Array.from({ length: 1 << 15 }, (_, i) => ((i * 2_654_435_761) >>> 0).toString(36).padStart(7, '0')).join('')

/** A text of so many characters. @param random at least 0, below 1. */
export function logLine(random: () => number, characters: number): string {
  const at = Math.floor(random() * (POOL.length - characters))
  return POOL.slice(at, at + characters - 12) + random().toFixed(10)
}

/** Writes them in batches, as backfill. */
export async function writePoints(engine: EmbeddedEngine, points: readonly TestPoint[]): Promise<void> {
  for (let from = 0; from < points.length; from += 2500) {
    const { batch, refused } = fill(engine, points.slice(from, from + 2500))
    if (refused.length > 0) throw new Error(JSON.stringify(refused[0]))
    await engine.write(batch, { backfill: true })
  }
}

/** @returns the rows that SQL answers. */
export async function sqlRows(engine: EmbeddedEngine, query: string): Promise<unknown[][]> {
  return (await engine.run<Decoded>(JOB, { namespace: 'default', query, parameters: [] }, { timeoutMs: 120_000 }).result).rows
}
