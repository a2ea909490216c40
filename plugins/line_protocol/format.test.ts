/** Line protocol as other plugins get it, and from the embedded engine's resolver, which reads plain keys itself. */
import { definePlugin, type PointFormat, pointFormat, type Svc } from 'svcdb'
import { boot, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import plugin from './index.ts'
import { storedIn } from './testing.ts'

t.test('a message with more points than max_write_batch_size is refused whole, and not cut off', async (t) => {
  let svc: Svc | undefined
  const reading = definePlugin({
    id: 'reading',
    summary: 'Reads messages',
    stability: 'experimental',
    setup: (given) => {
      svc = given
    },
  })
  const node = await boot({ plugins: [plugin, reading], config: { server: { max_write_batch_size: 2 } } })
  t.teardown(() => node.stop())
  const reader = (svc as Svc).find<PointFormat>(pointFormat('line_protocol'))?.reader()
  const batch = node.storage.batch('')
  t.teardown(() => node.storage.recycle(batch))
  const read = async (lines: number) =>
    reader?.read({ body: Buffer.from('m v=1\n'.repeat(lines)), time: 1n }, batch, () => {
      throw new Error('no other batch')
    })
  t.equal(await read(2), undefined)
  await t.rejects(read(3), { code: 'BAD_REQUEST', message: /max_write_batch_size is 2/ })
})

t.test('a series may have more tags than are read at a stretch', async (t) => {
  const config = { database: { data_dir: temporaryFolder(t), max_tags_per_series: 128 } }
  const node = await boot({ plugins: [plugin], storage: './storage/embedded/index.ts', config })
  t.teardown(() => node.stop())
  const tags = Array.from({ length: 100 }, (_, i) => `t${i}=v${i}`).join(',')
  const answer = await node.inject({ method: 'POST', url: '/write', payload: `m,a=1 v=0\nm,${tags} v=1\nm,${tags}x v=2` })
  t.equal(answer.statusCode, 204, answer.body)
  const rows = (await storedIn(node, 'm')).map((row) => [Object.keys(row.tags).length, row.tags.t99, row.values.v])
  t.same(rows.sort(), [
    [1, undefined, 0],
    [100, 'v99', 1],
    [100, 'v99x', 2],
  ])
})
