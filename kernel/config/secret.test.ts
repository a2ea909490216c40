import { inspect } from 'node:util'
import t from 'tap'
import { Logs } from '../log.ts'
import { Secret } from './secret.ts'

t.test('a secret prints as redacted everywhere', async (t) => {
  const secret = new Secret('hunter2')
  const lines: string[] = []
  const logs = new Logs({ level: 'info', format: 'text', destination: { write: (line) => void lines.push(line) } })
  logs.root.info({ secret_thing: secret, password: 'hunter2', deep: { token: 'hunter2' } }, `with ${secret}`)
  for (const shown of [`${secret}`, String(secret), JSON.stringify({ secret }), inspect(secret), inspect({ deep: { secret } }), lines.join('')]) {
    t.match(shown, '[redacted]')
    t.notMatch(shown, 'hunter2')
  }
  t.equal(secret.reveal(), 'hunter2')
})

t.test('a new level reaches loggers that were made before', async (t) => {
  const lines: string[] = []
  const logs = new Logs({ level: 'warn', format: 'json', destination: { write: (line) => void lines.push(line) } })
  const child = logs.child('part')
  child.info('unseen')
  logs.level = 'info'
  child.info('seen')
  t.match(
    lines.map((line) => JSON.parse(line)),
    [{ level: 'info', name: 'part', msg: 'seen' }],
  )
  t.equal(lines.length, 1)
})

t.test('compact has no time stamp and keeps to one line', async (t) => {
  const lines: string[] = []
  const logs = new Logs({ level: 'info', format: 'compact', destination: { write: (line) => void lines.push(line) } })
  logs.child('part').error({ err: new Error('it broke'), file: 'a b' }, 'failed')
  t.same(lines, ['ERROR part: failed file="a b" err="it broke"\n'])
})
