import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate, setTimeout } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { realTimers, type Timers } from '../../common/timers.ts'
import { testContext } from '../../conformance/index.ts'
import { configSchema } from '../config.ts'
import { tempDir } from '../testing/harness.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
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

const FILE = '1.parquet'

/** A scrubber over one segment of the times 10 to 20, and what it tells. */
function scrubberOf(t: Test, more: Partial<SegmentMeta> = {}) {
  const dataDir = tempDir()
  t.teardown(() => rmSync(dataDir, { recursive: true, force: true }))
  writeFileSync(join(dataDir, FILE), 'abc')
  const segment = { id: 1, table: 3, sequence: 1, file: FILE, bytes: 3, minTime: '10', maxTime: '20', ...more } as SegmentMeta
  const amended: Partial<SegmentMeta>[] = []
  const errors: string[] = []
  const ticks: (() => void)[] = []
  const timers: Timers = {
    ...realTimers,
    setInterval: (callback) => {
      ticks.push(callback)
      const timer = { unref: () => timer }
      return timer
    },
    clearInterval: () => {},
    sleep: async () => {},
  }
  const scrubber = new Scrubber(
    {
      dataDir,
      timers,
      config: { segment_verification: 'first_use', scrub_interval_secs: 60, scrub_bytes_per_sec: 65_536 },
      log: { ...testContext({}, () => 0).log, error: (_, text) => void errors.push(text as string) },
      catalog: { amendSegment: async (_, change) => void amended.push(change) },
      segments: { local: () => [segment] },
    },
    [segment],
  )
  const until = async (done: () => boolean): Promise<void> => {
    for (let turn = 0; !done() && turn < 10_000; turn++) await setImmediate()
  }
  return { dataDir, segment, amended, errors, scrubber, until, tick: () => ticks[0]() }
}

t.test('what a segment without a checksum has at the first look is what later ones compare with', async (t) => {
  const { dataDir, segment, amended, scrubber, until, tick } = scrubberOf(t)
  scrubber.start()
  await until(() => scrubber.hasLooked)
  t.same(amended, [{ crc: crc32('abc') }])
  t.equal(segment.crc, crc32('abc'))
  writeFileSync(join(dataDir, FILE), 'abd')
  tick()
  await until(() => scrubber.isCorrupt(1))
  t.ok(scrubber.isCorrupt(1))
  t.same(amended.slice(1), [{ damaged: true }], 'what is there now is not taken for what was written')
  await scrubber.stop()
})

t.test('a segment that is found corrupt is told of and marked once, however many find it', async (t) => {
  const { amended, errors, scrubber } = scrubberOf(t, { crc: crc32('abc') })
  for (let i = 0; i < 3; i++) scrubber.report(1, 'its checksum is wrong')
  scrubber.report(2, 'it is nobody’s any more')
  t.same(amended, [{ damaged: true }])
  t.equal(errors.length, 1)
  t.equal(scrubber.corrupt, 1)
  t.notOk(scrubber.isSound(1))
  t.ok(scrubber.isSound(2))
})

t.test('a corrupt segment is out of service for the times that it has, the first and the last included', async (t) => {
  const { scrubber } = scrubberOf(t, { crc: crc32('abc') })
  t.equal(scrubber.outOfService([3], 0n, 100n), 0)
  scrubber.report(1, 'its checksum is wrong')
  for (const [start, end, count] of [
    [0n, 9n, 0],
    [0n, 10n, 1],
    [12n, 13n, 1],
    [20n, 30n, 1],
    [21n, 30n, 0],
  ] as const)
    t.equal(scrubber.outOfService([3], start, end), count, `${start} to ${end}`)
  t.equal(scrubber.outOfService([4], 0n, 100n), 0)
})
