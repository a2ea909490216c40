/** What a namespace holds is known before the first write to it is taken, also where the namespace itself is not known yet. */
import type { Counter, Storage, WriteBatch } from 'svcdb'
import { ManualClock } from 'svcdb/testkit'
import t from 'tap'
import type { NamespacesConfig } from './config.ts'
import type { Directory } from './directory.ts'
import { NO_QUOTA } from './quota.ts'
import { QuotaGuard } from './quota-guard.ts'

const MOST = 1000

for (const known of [true, false])
  t.test(`a namespace that is full, ${known ? 'known here' : 'and becomes known with the write'}`, async (t) => {
    let bytes = MOST
    let asked = 0
    const arrived = Promise.withResolvers<void>()
    const directory = { ensure: () => (known ? undefined : arrived.promise), quota: () => ({ ...NO_QUOTA, max_storage_bytes: MOST }) }
    const usage = async () => {
      asked++
      return { bytes, series: 1, measurements: 1 }
    }
    const clock = new ManualClock()
    const guard = new QuotaGuard({
      directory: directory as unknown as Directory,
      config: { storage_refresh_secs: 10, ingestion_burst_secs: 1 } as NamespacesConfig,
      multiTenancy: true,
      clock,
      storage: () => ({ usage }) as unknown as Storage,
      refusals: { inc() {} } as unknown as Counter,
      failed: () => {},
    })
    const write = async () => guard.admit({ rows: 1 } as WriteBatch, { namespace: 'a' })
    const writes = [write(), write()]
    arrived.resolve()
    for (const one of writes) await t.rejects(one, { code: 'RATE_LIMITED', message: /max_storage_bytes of 1000 is reached/ })
    t.equal(asked, 1, 'all who wait have one answer')
    bytes--
    await t.rejects(write(), { code: 'RATE_LIMITED' }, 'it holds for a while')
    await clock.advance(10_000)
    await write()
  })
