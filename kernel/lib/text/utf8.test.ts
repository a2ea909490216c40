import t from 'tap'
import { utf8Of } from './utf8.ts'

t.test('bytes that are UTF-8 are a text, as they are, and others none', async (t) => {
  const bytes = Buffer.from('<\u{feff}größe>')
  t.equal(utf8Of(bytes, 1, bytes.length - 1), '\u{feff}größe')
  t.equal(utf8Of(bytes.subarray(4), 0, 2), 'gr', 'within a part')
  t.equal(utf8Of(bytes, 3, 3), '')
  for (const bad of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xc0, 0x80], [0xf4, 0x90, 0x80, 0x80]])
    t.equal(utf8Of(Uint8Array.from(bad), 0, bad.length), undefined)
})
