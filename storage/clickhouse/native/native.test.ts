/** Blocks of format Native, as they were written down from ClickHouse 26.7, and cut anywhere. */
import t from 'tap'
import { decodeBlocks, type ReadBlock } from './decode.ts'
import { encodeBlock, int64s, maps, strings, uint64s } from './encode.ts'

/** SELECT toUInt64(number) AS n, if(number = 1, NULL, concat('t', toString(number))) AS s, [s, 'x'] ... FROM numbers(3), by hand. */
const BLOCK = Buffer.concat([
  Buffer.from([3, 3]),
  Buffer.from('\x01n\x06UInt64', 'latin1'),
  uint64s([0, 1, 2 ** 53]),
  Buffer.from('\x01s\x10Nullable(String)', 'latin1'),
  Buffer.from([0, 1, 0]),
  Buffer.from('\x02t0\x00\x02t2', 'latin1'),
  Buffer.from('\x01l\x0dArray(String)', 'latin1'),
  uint64s([1, 1, 3]),
  Buffer.from('\x01a\x01b\x00', 'latin1'),
])

async function read(parts: readonly Uint8Array[]): Promise<unknown[]> {
  const blocks: ReadBlock[] = []
  for await (const block of decodeBlocks(
    (async function* () {
      yield* parts
    })(),
  ))
    blocks.push(block)
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString()
  return blocks.map(({ rows, columns: [n, s, l] }) => ({
    rows,
    n: [...new BigUint64Array(n.bytes.buffer)],
    nulls: [...(s.nulls ?? [])],
    s: s.texts?.map(text),
    l: l.lists?.map((list) => list.map(text)),
  }))
}

const EXPECTED = { rows: 3, n: [0n, 1n, 2n ** 53n], nulls: [0, 1, 0], s: ['t0', '', 't2'], l: [['a'], [], ['b', '']] }

t.test('a block is read, wherever the chunks of an answer end', async (t) => {
  for (let size = 1; size <= BLOCK.length; size++) {
    const chunks = Array.from({ length: Math.ceil(BLOCK.length / size) }, (_, i) => BLOCK.subarray(i * size, (i + 1) * size))
    const found = await read(chunks)
    if (JSON.stringify(found, plain) !== JSON.stringify([EXPECTED], plain)) t.same(found, [EXPECTED], `chunks of ${size} bytes`)
  }
  t.same(await read([BLOCK, BLOCK]), [EXPECTED, EXPECTED])
  t.same(await read([]), [])
})

t.test('an answer that ends within a block is refused', async (t) => {
  for (let end = 1; end < BLOCK.length; end++) await t.rejects(read([BLOCK.subarray(0, end)]), /it ends within a block/, `after ${end} bytes`)
})

t.test('a type that nobody asked for is refused', async (t) => {
  await t.rejects(read([Buffer.from('\x01\x01\x01n\x05Tuple', 'latin1')]), { message: 'cannot read an answer of ClickHouse: type "Tuple" is unknown' })
})

t.test('what is written', async (t) => {
  const parts = encodeBlock([{ name: 'a', type: 'Nullable(Int64)', nulls: Uint8Array.of(0, 1), data: int64s([-1, 0n]) }], 2)
  t.equal(Buffer.concat(parts).toString('hex'), `0102${'0161'}0f${Buffer.from('Nullable(Int64)').toString('hex')}0001${'ff'.repeat(8)}${'00'.repeat(8)}`)
  t.equal(Buffer.from(strings(['', 'ä', 'x'.repeat(200)])).toString('hex'), `0002c3a4c801${'78'.repeat(200)}`)
  t.equal(
    Buffer.from(maps([['k', 'v'], [], ['a', 'b', 'c', 'd']])).toString('latin1'),
    Buffer.concat([uint64s([1, 1, 3]), strings(['k', 'a', 'c', 'v', 'b', 'd'])]).toString('latin1'),
  )
})

const plain = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? `${value}n` : value)
