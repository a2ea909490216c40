import t from 'tap'
import { Metadata } from './metadata.ts'

t.test('of a repeated key the first value counts, of what proxies add to, all do', async (t) => {
  const metadata = new Metadata([
    ...['authorization', ' Bearer a ', 'x-forwarded-for', '192.0.2.1', 'authorization', 'Bearer b', 'x-forwarded-for', ' 192.0.2.2, 192.0.2.3 '],
    ...['forwarded', 'for=192.0.2.1', 'forwarded', 'for="[2001:db8::1]"', 'x-real-ip', '192.0.2.1', 'x-namespace', 'red', 'x-namespace', 'blue'],
  ])
  t.equal(metadata.get('authorization'), 'Bearer a')
  t.equal(metadata.get('x-namespace'), 'red')
  t.equal(metadata.get('x-forwarded-for'), '192.0.2.1, 192.0.2.2, 192.0.2.3')
  t.equal(metadata.get('forwarded'), 'for=192.0.2.1, for="[2001:db8::1]"')
  t.equal(metadata.get('x-real-ip'), '192.0.2.1')
  metadata.check()
})

t.test('every line of a joined value is checked', async (t) => {
  const metadata = new Metadata(['x-forwarded-for', '192.0.2.1', 'x-forwarded-for', 'caf\u00e9'])
  t.throws(() => metadata.check(), { code: 'BAD_REQUEST', message: /metadata "x-forwarded-for"/ })
})
