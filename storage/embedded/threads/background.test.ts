/** Background jobs start no thread where one runs. */
import { definePlugin } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import { boot } from 'svcdb/testkit'
import t from 'tap'

const JOB = moduleUrl('./testing-thread-id.ts', import.meta.url)

const plugin = definePlugin({ id: 'jobs', summary: 'Runs jobs', stability: 'stable', capabilities: ['jobs'], setup: () => {} })

t.test('jobs that come at once go to several threads, those in the background to one', async (t) => {
  const node = await boot({ plugins: [plugin], storage: 'embedded', config: { database: { query_threads: 2 } } })
  t.teardown(() => node.stop())
  const threads = async (background: boolean) => {
    const running = [1, 2, 3].map(() => node.storage.run<number>(JOB, undefined, { background }).result)
    return new Set(await Promise.all(running)).size
  }
  t.equal(await threads(true), 1)
  t.equal(await threads(false), 2)
})
