import t from 'tap'
import { TestDatabase } from '../testing/engine-state.ts'

t.test('it is settled when no statement is on its way: a thread that leaves before ends the process', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const { duck } = await db.context()
  const left = new Set(['a sum', 'a failure', 'an interrupted one'])
  const ended = (name: string) => (): boolean => left.delete(name)
  const aborter = new AbortController()
  const sum = duck.run('SELECT sum(i) AS n FROM range(20000000) t(i)').finally(ended('a sum'))
  const failure = duck.run("SELECT error('no') FROM range(3)").finally(ended('a failure'))
  const interrupted = duck.run('SELECT count(*) FROM range(1000000) a, range(1000000) b', aborter.signal).finally(ended('an interrupted one'))
  const outcomes = Promise.allSettled([sum, failure, interrupted])
  aborter.abort()
  await duck.settled()
  t.same([...left], [])
  t.same(
    (await outcomes).map(({ status }) => status),
    ['fulfilled', 'rejected', 'rejected'],
  )
})
