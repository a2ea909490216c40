/** The worked example of docs/formats/webhooks.md is what the code writes and reads. */
import { readFileSync } from 'node:fs'
import { loadEngine } from 'svcdb/testkit'
import t from 'tap'
import { envelope } from '../../plugins/webhooks/envelope.ts'
import { Outbox } from '../../plugins/webhooks/outbox.ts'
import { messageId } from '../../plugins/webhooks/signature.ts'
import { fences } from '../support/markdown.ts'

const page = readFileSync(new URL('../../docs/formats/webhooks.md', import.meta.url), 'utf8')
const shown = (word: string) => JSON.parse(fences(page).find(({ text, line }) => page.split('\n')[line - 1].endsWith(word) && text.length > 0)?.text ?? 'null')
const limits = { queueSize: 10, namespaceBytes: 10_000, totalBytes: 10_000, namespaceEndpoints: 1, endpoints: 1 }
const endpoint = 'default/triggers/hot:1'
const number = '1700000000000000'

t.test('the example', async (t) => {
  const { createEngine } = await loadEngine('memory', '.')
  const state = createEngine({ config: {}, now: Date.now } as never).state('webhooks')
  const outbox = new Outbox(state, limits, () => 1_700_000_000_000)
  await outbox.define({ owner: 'triggers', namespace: 'default', name: 'hot:1' }, 'https://hooks.example.com/in')
  const [source, id] = ['svc:trigger/hot', 'e-1']
  const body = envelope({ id, source, type: 'io.svc.signal.fired', time: 1_700_000_000_000, data: { value: 1 } })
  const message = messageId(source, id)
  await outbox.enqueue([{ endpoint, message, id, body }], () => {})
  t.same(await state.list(), [
    { key: `body/${endpoint}/${number}`, value: shown('body') },
    { key: `endpoint/${endpoint}`, value: shown('endpoint') },
    { key: `message/${endpoint}/${message}`, value: Number(number) },
    { key: 'total/*', value: { endpoints: 1, waiting: 1, bytes: 690 } },
    { key: 'total/default', value: { endpoints: 1, waiting: 1, bytes: 690 } },
    { key: `waiting/${endpoint}/${number}`, value: shown('waiting') },
  ])
  await outbox.finish([{ endpoint, seq: Number(number), result: 'delivered' }])
  t.equal(await state.get(`done/${endpoint}/${number}`), message)
  await state.transaction((tx) => {
    tx.put(`waiting/${endpoint}/${number}`, shown('waiting'))
    tx.put(`body/${endpoint}/${number}`, shown('body'))
  })
  t.same(await outbox.waiting(endpoint), [{ ...shown('waiting'), endpoint, seq: Number(number) }])
  t.equal(await outbox.body(endpoint, Number(number)), body)
})
