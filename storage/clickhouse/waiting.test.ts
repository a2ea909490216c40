/** Bytes that wait for ClickHouse: how many may, and that no namespace keeps the others out. */
import t from 'tap'
import { WaitingBytes } from './waiting.ts'

t.test('as much waits as may, and is let in again once it is stored', async (t) => {
  const waiting = new WaitingBytes(1000)
  waiting.add('', 999)
  waiting.requireRoom('')
  waiting.add('', 1)
  t.throws(() => waiting.requireRoom(''), { code: 'BACKPRESSURE', message: /: 1000 bytes wait for ClickHouse, clickhouse.max_waiting_bytes is 1000;/ })
  waiting.add('', -1)
  waiting.requireRoom('')
  t.equal(waiting.total, 999)
})

t.test('a namespace is refused before the others: alone at three quarters, beside others at three times what is left', async (t) => {
  const waiting = new WaitingBytes(1000)
  waiting.add('a', 750)
  waiting.requireRoom('a')
  waiting.add('a', 1)
  t.throws(() => waiting.requireRoom('a'), { code: 'BACKPRESSURE', message: /namespace "a" are 751 of 751 bytes that wait .* the rest is left to others/ })
  waiting.requireRoom('b')
  waiting.add('b', 200)
  t.throws(() => waiting.requireRoom('b'), { message: /namespace "b" are 200 of 951 bytes/ })
  waiting.requireRoom('c')
  waiting.add('a', -751)
  waiting.requireRoom('a')
  waiting.requireRoom('b')
  waiting.add('b', -200)
  t.equal(waiting.total, 0)
})
