import t from 'tap'
import { AttributeError, textAt } from './attribute-value.ts'

t.test('an attribute that cannot be a tag costs no stack, short or long: there may be a million of them in one request', async (t) => {
  for (const bytes of [Uint8Array.of(0xff), new Uint8Array(100).fill(0xff)]) {
    let error: unknown
    try {
      textAt(bytes, 0, bytes.length)
    } catch (thrown) {
      error = thrown
    }
    if (!(error instanceof AttributeError)) return t.fail('it was taken')
    t.equal(error.message, 'it is not UTF-8')
    t.notMatch(error.stack, /\n/)
    t.equal(error.cause, undefined)
  }
})
