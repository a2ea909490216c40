/** A data directory that was copied to several devices: each sends what is its own. */
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { i64, lines, NOW, write } from '../conformance/points.ts'
import { edgeOf, upstream } from './testing.ts'

const point = (host: string, n: number) => ({ measurement: 'cpu', tags: { host }, time: NOW + BigInt(n), fields: { v: i64(BigInt(n)) } })

t.test('points of two copies are stored, whatever they have in common', async (t) => {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  const folder = temporaryFolder(t)
  const at = (name: string): string => join(folder, name)
  const opened = async (name: string) => {
    const engine = edgeOf({ data_dir: at(name), forward: { upstream: [{ name: 'one', url }] } })
    await engine.open()
    return engine
  }
  const first = await opened('image')
  await write(first, [point('image', 0)], { namespace: '' })
  await first.drained()
  await first.close()
  for (const copy of ['a', 'b']) {
    cpSync(at('image'), at(copy), { recursive: true, filter: (path) => !/LOCK/.test(path) })
    const engine = await opened(copy)
    // At the same time by the clock, with the same number in the queue.
    await write(engine, [point(copy, 1)], { namespace: '' })
    await engine.drained()
    await engine.close()
  }
  const stored = (await lines(node.storage, { namespace: '', measurement: 'cpu' })).map((line) => /"host":"(\w+)"/.exec(line)?.[1])
  t.same(stored.sort(), ['a', 'b', 'image'])
})
