import { until } from '../../../test/support/until.ts'
import type { EmbeddedEngine } from '../engine.ts'
import { inside } from './catalog-faults.ts'

/** A pass, after which the database knows until when its series have rows, and another one, which goes by that. */
export async function learned(engine: EmbeddedEngine): Promise<void> {
  const { scrubber, seeded } = inside(engine)
  await until('the files have been looked at', () => scrubber.hasLooked)
  await engine.tidy()
  await seeded.settled()
  await engine.tidy()
}
