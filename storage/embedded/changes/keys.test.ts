/** Readers of changes where the log holds columns whose key is gone. */
import t from 'tap'
import { follow } from '../../conformance/follow.ts'
import { NOW, str, type TestPoint, write } from '../../conformance/points.ts'
import { closeAndRemove, openEngine, tempDir } from '../testing/harness.ts'

process.env.SVC_TEST_GONE = Buffer.alloc(32, 3).toString('base64')
process.env.SVC_TEST_KEPT = Buffer.alloc(32, 4).toString('base64')

t.test('records whose key is gone are gaps, and all others are told', async (t) => {
  const dir = tempDir()
  const point = (measurement: string, i: number, field: string): TestPoint => ({
    measurement,
    tags: { host: 'a' },
    time: NOW + BigInt(i),
    fields: { [field]: str(`value ${i}`) },
  })
  let engine = await openEngine(dir, { field_encryption: { columns: { email: 'gone' }, keys: { gone: 'SVC_TEST_GONE' } } })
  const cursor = engine.changes()
  const after = await cursor.position()
  await write(engine, [point('users', 0, 'email')])
  await write(engine, [point('rooms', 1, 'name')])
  await write(engine, [point('users', 2, 'email'), point('rooms', 2, 'name')])
  await write(engine, [point('rooms', 3, 'name')])
  cursor.close()
  await engine.close()
  engine = await openEngine(dir, { field_encryption: { columns: { email: 'kept' }, keys: { kept: 'SVC_TEST_KEPT' } } })
  t.teardown(() => closeAndRemove(engine, dir))
  await write(engine, [point('users', 4, 'email')])
  const follower = follow(engine, { after })
  await follower.until(5)
  const told = await follower.stop()
  const texts = told.map((change) =>
    change.kind === 'rows' ? `${change.measurement} ${change.rows[0].fields[0].value}` : change.kind === 'gap' ? change.cause : change.kind,
  )
  t.same(texts, ['damaged', 'rooms value 1', 'damaged', 'rooms value 3', 'users value 4'])
})
