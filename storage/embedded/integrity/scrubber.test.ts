import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { testContext } from '../../conformance/index.ts'
import { configSchema } from '../config.ts'
import { Scrubber } from './scrubber.ts'

t.test('the longest interval that is accepted is no busy loop', async (t) => {
  let passes = 0
  const { maximum } = configSchema.properties.scrub_interval_secs as { maximum?: number }
  const config = { segment_verification: 'first_use', scrub_interval_secs: maximum ?? 0, scrub_bytes_per_sec: 65_536 } as const
  t.ok(config.scrub_interval_secs > 86_400)
  const segments = () => {
    passes++
    return []
  }
  const scrubber = new Scrubber(
    { dataDir: '.', config, log: testContext({}, () => 0).log, catalog: { amendSegment: async () => {} }, segments: { local: segments } },
    [],
  )
  scrubber.start()
  await setTimeout(100)
  await scrubber.stop()
  t.ok(passes <= 2, `${passes} looks at the segments within a tenth of a second`)
})
