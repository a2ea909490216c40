/** Points of one field, as the rules about drops and retention write and read them, and the clock that both go by. */
import type { Life } from './life.ts'
import { f64, str, type TestPoint, write } from './points.ts'

export const HOUR_MS = 3_600_000
export const YEAR_MS = 365 * 24 * HOUR_MS
const NS_PER_MS = 1_000_000n

export const point = (time: bigint, value: number | string, host = 'a', measurement = 'cpu'): TestPoint => ({
  measurement,
  tags: { host },
  time,
  fields: { v: typeof value === 'string' ? str(value) : f64(value) },
})
export const row = (time: bigint, value: number | string, host = 'a'): string =>
  `${JSON.stringify({ host })} ${time} v=${typeof value === 'string' ? `string:${JSON.stringify(value)}` : `float64:${value}`}`
export const names = async (life: Life) => (await life.engine.measurements('default')).map((m) => m.name)

/** Sets the clock and writes a point of that time elsewhere, so that the newest time held follows. */
export async function advance(life: Life, toMs: number): Promise<void> {
  life.clock.ms = toMs
  await write(life.engine, [point(BigInt(toMs) * NS_PER_MS, 0, 'a', 'clock')], { namespace: 'elsewhere' })
}
