import t from 'tap'
import { seeded } from '../random/index.ts'
import { decodeLz4, storeLz4 } from './lz4.ts'

const SEED = Number(process.env.SEED ?? Date.now() % 1e9)

t.test(`what is stored is read, whether its length is known or not, SEED=${SEED}`, async (t) => {
  const random = seeded(SEED)
  for (const length of [0, 1, 70_000, 5_000_000, Math.floor(random() * 1e6)]) {
    const bytes = Buffer.from(Array.from({ length: Math.min(length, 1000) }, () => random() * 256))
    const whole = Buffer.alloc(length, bytes.length === 0 ? 0 : bytes)
    for (const expected of [undefined, length, 10]) t.ok((await decodeLz4(storeLz4(whole), 1e7, expected)).equals(whole), `${length} ${expected}`)
  }
})

t.test('frames as others write them, and what is none', async (t) => {
  // As the program lz4 writes them: matches that overlap themselves, without and with checksums.
  for (const frame of [
    '04224d18604082170000002f616202003ff000622074686520656e64206f6620697400000000',
    '04224d186440a7170000002f616202003ff000622074686520656e64206f662069740000000064356f62',
  ])
    t.equal((await decodeLz4(Buffer.from(frame, 'hex'), 1000)).toString(), `${'ab'.repeat(42)}b the end of it`)
  for (const [bytes, error] of [
    ['0422', /does not begin as one/],
    ['04224d1800407300', /of another version/],
    ['04224d18604082', /it is cut/],
    ['04224d186040820400000010610900', /a match begins before it|it is cut/],
    ['04224d18604082ff0000001061', /it is cut/],
  ] as const)
    await t.rejects(decodeLz4(Buffer.from(bytes, 'hex'), 1000), { message: error }, bytes)
  await t.rejects(decodeLz4(Buffer.from(`04224d18604082${'e8030080'}${'00'.repeat(1000)}00000000`, 'hex'), 999), { message: /more than 999 bytes/ })
  const bomb = Buffer.concat([Buffer.from('04224d186040820a4100001f610100', 'hex'), Buffer.alloc(16_640, 255), Buffer.from('0a106100000000', 'hex')])
  bomb.writeUInt32LE(bomb.length - 15, 7)
  await t.rejects(decodeLz4(bomb, 1e9), { message: /a block has more than 4 MiB/ })
})
