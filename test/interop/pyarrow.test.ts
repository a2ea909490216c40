/** pyarrow reads an export: schema, values, dictionaries. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { runServer } from '../support/server.ts'
import { lackingPython, PYTHON } from './program.ts'

const skip = lackingPython('pyarrow')
const BASE = 1_700_000_000_000_000_000n

const SCRIPT = `
import json, sys
import pyarrow.parquet as pq
file = pq.ParquetFile(sys.argv[1])
table = file.read()
chunks = [file.metadata.row_group(g).column(1) for g in range(file.metadata.num_row_groups)]
print(json.dumps({
  'schema': [f'{f.name} {f.type}' for f in table.schema],
  'encodings': sorted({e for c in chunks for e in c.encodings}),
  'rows': [[str(v.value if hasattr(v, 'value') else v.as_py()) for v in row] for row in zip(*[c for c in table.columns])],
}))
`

test('an export says what was written', { skip }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-interop-'))
  await writeFile(join(folder, 'svc.toml'), `plugins = ["line_protocol", "export"]\n[export]\ndirectory = ${JSON.stringify(folder)}\n`)
  const server = await runServer(join(folder, 'svc.toml'))
  try {
    const lines = Array.from(
      { length: 100 },
      (_, i) =>
        `m,host=h${i % 2}${i < 50 ? ',zone=ü' : ''} f=${i / 4},i=${-9007199254740993n - BigInt(i)}i,u=18446744073709551615u,b=${i % 3 === 0},s="text ${i}",d=1.5d ${BASE + BigInt(i)}`,
    )
    const written = await fetch(`${server.url}/write`, { method: 'POST', body: lines.join('\n') })
    assert.equal(written.status, 204, await written.text())
    const answer = await fetch(`${server.url}/api/v1/export/parquet`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"measurement":"m","output_path":"m.parquet"}',
    })
    const { path, rows_written: rows } = (await answer.json()) as { path: string; rows_written: number }
    assert.equal(rows, 100)
    const read = JSON.parse(execFileSync(PYTHON, ['-c', SCRIPT, path], { encoding: 'utf8' }))
    assert.deepEqual(read.schema, [
      '_time timestamp[ns]',
      'host string',
      'zone string',
      'f double',
      'i int64',
      'u uint64',
      'b bool',
      's string',
      'd decimal128(38, 1)',
    ])
    assert.ok(read.encodings.includes('RLE_DICTIONARY'), String(read.encodings))
    const expected = Array.from({ length: 100 }, (_, i) => [
      String(BASE + BigInt(i)),
      `h${i % 2}`,
      i < 50 ? 'ü' : 'None',
      Number.isInteger(i / 4) ? `${i / 4}.0` : String(i / 4),
      String(-9007199254740993n - BigInt(i)),
      '18446744073709551615',
      i % 3 === 0 ? 'True' : 'False',
      `text ${i}`,
      '1.5',
    ])
    assert.deepEqual(read.rows.sort(), expected.sort())
  } finally {
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
})
