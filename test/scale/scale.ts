/**
 * How cost grows with rows and series: one sheet, a column for each cell.
 *
 *   npm run bench:scale -- [--rows 1e6,1e7,1e8] [--series 1000] [--cells 1e6x1e5,5e6x5e6] [--no-questions] [--write-minutes 30]
 *
 * Without arguments: 1, 10 and 100 million rows of 1,000 series, then 10,000, 100,000, 1,000,000 and 5,000,000 series with a few rows each.
 */
import { statfs } from 'node:fs/promises'
import { freemem, tmpdir } from 'node:os'
import { parseArgs } from 'node:util'
import { type Cell, type Figures, runCell } from './cell.ts'
import { FIELDS } from './rows.ts'

const GIB = 2 ** 30
/** Bytes on disk at worst: log and merges beside the segments. */
const DISK_PER_VALUE = 24
const DISK_PER_SERIES = 400
const DISK_BASE = 2 * GIB
/** Bytes of memory, generously. */
const MEMORY_PER_SERIES = 1200
const MEMORY_BASE = 2 * GIB

const STANDARD = ['1e6x1e3', '1e7x1e3', '1e8x1e3', '1e6x1e4', '1e6x1e5', '3e6x1e6', '5e6x5e6']

const { values: args } = parseArgs({
  options: {
    rows: { type: 'string' },
    series: { type: 'string' },
    cells: { type: 'string' },
    'no-questions': { type: 'boolean', default: false },
    'write-minutes': { type: 'string', default: '60' },
  },
})

const cells = chosen()
for (const cell of cells) {
  const missing = await lacking(cell)
  if (missing !== undefined) fail(`cannot measure ${title(cell)}: ${missing}; choose smaller cells with --cells`)
}
const sheet: { cell: Cell; figures: Figures }[] = []
for (const cell of cells) {
  process.stderr.write(`${title(cell)}\n`)
  const figures = await runCell(cell, {
    questions: !args['no-questions'],
    writeLimitMs: Number(args['write-minutes']) * 60_000,
    log: (line) => void process.stderr.write(`${line}\n`),
  })
  sheet.push({ cell, figures })
}
process.stdout.write(table())

function chosen(): Cell[] {
  const list = (text: string): number[] => text.split(',').map(numberOf)
  if (args.cells === undefined && (args.rows !== undefined || args.series !== undefined))
    return list(args.series ?? '1000').flatMap((series) => list(args.rows ?? '1e6').map((rows) => ({ rows: Math.max(rows, series), series })))
  return (args.cells?.split(',') ?? STANDARD).map((text) => {
    const [rows, series] = text.split('x').map(numberOf)
    if (series === undefined) fail(`cannot read the cell "${text}": write rows and series as in 1e6x1e3`)
    return { rows: Math.max(rows, series), series }
  })
}

function numberOf(text: string): number {
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number < 2 || number > 1e10) fail(`cannot read "${text}": not a whole number from 2 to 10,000,000,000`)
  return number
}

/** What the machine has too little of for a cell. */
async function lacking({ rows, series }: Cell): Promise<string | undefined> {
  const { bavail, bsize } = await statfs(tmpdir())
  const disk = DISK_BASE + rows * FIELDS * DISK_PER_VALUE + series * DISK_PER_SERIES
  if (bavail * bsize < disk) return `${tmpdir()} has ${gib(bavail * bsize)} free of the ${gib(disk)} it may take`
  const memory = MEMORY_BASE + series * MEMORY_PER_SERIES
  if (freemem() < memory) return `${gib(freemem())} of memory are free of the ${gib(memory)} it may take`
  return undefined
}

function table(): string {
  const names = [...new Set(sheet.flatMap(({ figures }) => [...figures.keys()]))]
  const lines = [
    ['', ...sheet.map(({ cell }) => title(cell))],
    ['---', ...sheet.map(() => '---:')],
    ...names.map((name) => [name, ...sheet.map(({ figures }) => shown(figures.get(name)))]),
  ]
  return lines.map((line) => `| ${line.join(' | ')} |\n`).join('')
}

function shown(value: number | string | undefined): string {
  if (value === undefined) return ''
  if (typeof value === 'string') return value.replaceAll('|', '\\|').replace(/\s+/g, ' ').slice(0, 120)
  return value >= 100 ? Math.round(value).toLocaleString('en') : value >= 10 ? value.toFixed(1) : value.toFixed(2)
}

function title({ rows, series }: Cell): string {
  return `${rows.toLocaleString('en')} rows, ${series.toLocaleString('en')} series`
}

function gib(bytes: number): string {
  return `${(bytes / GIB).toFixed(1)} GiB`
}

function fail(why: string): never {
  process.stderr.write(`${why}\n`)
  process.exit(2)
}
