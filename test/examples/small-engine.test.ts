import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { runServer } from '../support/server.ts'

t.test('examples/small-engine: what is written is in the file, in order', async (t) => {
  const folder = await temporaryFolder(t)
  const server = await runServer('examples/small-engine/svc.toml', { env: { SVC_DATA_DIR: folder } })
  t.match(server.output(), /storage=\.\/engine\.ts/)
  const write = async (body: string) => (await fetch(`${server.url}/write`, { method: 'POST', body })).status
  t.equal(await write('climate,room=cellar temperature=20,open=false,note="dry",n=3i'), 204)
  t.same(await Promise.all([write('a v=1 '), write('a v=2')]), [204, 204])
  t.equal(await write('climate,room=cellar temperature="warm"'), 400, 'types are those it knows')
  t.equal(await server.stop(), 0)
  const points = readFileSync(join(folder, 'points.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.match(points[0], { measurement: 'climate', tags: { room: 'cellar' }, time: /^\d{19}$/, fields: { temperature: '20', open: 'false', note: 'dry', n: '3' } })
  t.same(
    points
      .slice(1)
      .map(({ fields }) => fields.v)
      .sort(),
    ['1', '2'],
  )
})
