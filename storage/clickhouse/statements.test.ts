/** The definitions of tables, on one server and on a cluster, as the files of testcases/ have them. SVC_GOLDEN=write writes the files anew. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  awaitReplicas,
  backupCatalog,
  backupPoints,
  catalogTables,
  claimDatabase,
  createRecords,
  dropDatabase,
  dropRecord,
  type Part,
  restoreTables,
  statusOf,
} from './backup/statements.ts'
import {
  addColumns,
  type ColumnDefinition,
  createCatalog,
  createNamespace,
  createOwn,
  databaseOf,
  deleteFromDay,
  deleteRows,
  dropDays,
  dropOwn,
  type Place,
  setColdVolume,
  setPolicy,
  tablesOf,
} from './statements.ts'

const FOLDER = join(import.meta.dirname, 'testcases')
const TYPES = ['float64', 'int64', 'uint64', 'bool', 'string', 'histogram', 'decimal'] as const
const FIELDS = TYPES.map((type, index): ColumnDefinition => ({ index, type, scale: type === 'decimal' ? 4 : 0 }))

const part = (part: Part['part']): Part => ({ disk: 'backups', name: "svc/it's\\", part })

const all = (place: Place): string =>
  [
    ...createCatalog(place),
    ...createNamespace(place, 'default'),
    ...createOwn(place, 'default', 7_000_000, FIELDS),
    ...addColumns(place, 'default', 7_000_000, [{ index: 7, type: 'float64', scale: 0 }]),
    deleteRows(place, 'default', 'narrow', 'life = 7000000'),
    deleteRows(place, 'default', 'm_7000000', "time < fromUnixTimestamp64Nano(toInt64('0'), 'UTC')"),
    dropDays(place, 'default', 'm_7000000', [-3n, 19_000n]),
    deleteFromDay(place, 'default', 'narrow', 19_000n, 'life < 9000000 AND life NOT IN (7000000)'),
    setPolicy(place, 'default', tablesOf(place, 'narrow')[0], 'tiers'),
    setColdVolume(place, 'default', tablesOf(place, 'narrow')[0], { volume: 'cold', afterSecs: 86_400 }),
    setColdVolume(place, 'default', tablesOf(place, 'm_7000000')[0], undefined),
    ...dropOwn(place, 'default', 7_000_000),
    ...createRecords(place),
    backupPoints(place, part('points'), 'id-1', ['n_default', 'x_00']),
    backupCatalog(place, part('catalog'), 'id-2', 'record-1'),
    statusOf(place, 'id-2'),
    dropRecord(place, 'record-1'),
    claimDatabase({ ...place, prefix: 'other' }),
    restoreTables({ ...place, prefix: 'other' }, part('catalog'), 'id-3', catalogTables({ ...place, prefix: 'other' })),
    restoreTables(place, part('points'), 'id-4', [['n_default.m_7000000', 'other_n_default.m_7000000']]),
    ...awaitReplicas(place, ['other_n_default.m_7000000']),
    dropDatabase(place, 'svc_Verify_0_00000000_n_default'),
  ]
    .map((statement) => `${statement};\n`)
    .join('')

for (const [name, place] of [
  ['one-server', { prefix: 'svc', cluster: undefined }],
  ['cluster', { prefix: 'svc', cluster: 'main' }],
] as const)
  t.test(`statements: ${name}`, async (t) => {
    const path = join(FOLDER, `${name}.sql`)
    if (process.env.SVC_GOLDEN === 'write') writeFileSync(path, all(place))
    t.equal(all(place), readFileSync(path, 'utf8'))
  })

t.test('a text of a caller is no part of a name', async (t) => {
  const place = { prefix: 'svc', cluster: undefined }
  const hostile = ['', 'a b', 'A', 'x; DROP DATABASE svc', 'ä', "'", 'n_a', 'x'.repeat(41)]
  const names = hostile.map((namespace) => databaseOf(place, namespace))
  for (const name of names) t.match(name, /^svc_x_[0-9a-f]{32}$/)
  t.equal(new Set(names).size, hostile.length)
  t.equal(databaseOf(place, 'acme1'), 'svc_n_acme1')
})
