/** How jobs are divided among query threads. */
import { definePlugin } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import { boot } from 'svcdb/testkit'
import t from 'tap'

const JOB = moduleUrl('./testing-thread-id.ts', import.meta.url)

const plugin = definePlugin({ id: 'jobs', summary: 'Runs jobs', stability: 'stable', capabilities: ['jobs'], setup: () => {} })

t.test('jobs that come at once go to several threads, as many as there may be', async (t) => {
  const node = await boot({ plugins: [plugin], storage: 'embedded', config: { database: { query_threads: 2 } } })
  t.teardown(() => node.stop())
  const running = [1, 2, 3].map(() => node.storage.run<number>(JOB, undefined).result)
  t.equal(new Set(await Promise.all(running)).size, 2)
})
