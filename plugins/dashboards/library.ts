/** The dashboards that are served now: the shipped ones, and those of the folder over them. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { DashboardFolder } from './folder.ts'
import { arrayOf, type Model, merge, parseModel } from './model.ts'

/** What the package brings. */
export const MODELS = fileURLToPath(new URL('./models/', import.meta.url))
export const RULES = fileURLToPath(new URL('./rules/', import.meta.url))
const RULES_FILE = 'svc.yml'

/** The folder is looked at once in this time at most, however often it is asked for. */
const RECHECK_MS = 1000

interface LibraryHost {
  /** Milliseconds that only grow. */
  monotonic(): number
  /** Told of each problem when it comes up, and again after it went away and came back. */
  problem(text: string): void
}

export interface LibraryCounts {
  shipped: number
  own: number
  refused: number
}

export class DashboardLibrary {
  private readonly folder: DashboardFolder
  private readonly host: LibraryHost
  private shipped: Model[] = []
  private rulesText: Buffer = Buffer.alloc(0)
  private answer: Buffer = Buffer.from('[]')
  private told = new Set<string>()
  private looked: number | undefined
  private looking: Promise<void> | undefined
  counts: LibraryCounts = { shipped: 0, own: 0, refused: 0 }

  constructor(folder: DashboardFolder, host: LibraryHost) {
    this.folder = folder
    this.host = host
  }

  /** @throws Error when the installation lacks what it should have. */
  async open(): Promise<void> {
    this.shipped = await shippedModels()
    this.rulesText = await readFile(join(RULES, RULES_FILE))
    await this.look()
  }

  /** A JSON array of whole models. */
  async export(): Promise<Buffer> {
    if (this.looked === undefined || this.host.monotonic() - this.looked >= RECHECK_MS) await this.look()
    return this.answer
  }

  /** The alert rules, as Prometheus reads them. */
  rules(): Buffer {
    return this.rulesText
  }

  private look(): Promise<void> {
    this.looking ??= this.refresh().finally(() => {
      this.looking = undefined
    })
    return this.looking
  }

  private async refresh(): Promise<void> {
    const { models: own, problems } = await this.folder.read()
    const { models, doubles } = merge(this.shipped, own)
    for (const { name, other } of doubles) problems.push(this.folder.refused(name, `"${other}" has the same uid; give it another one`))
    this.answer = arrayOf(models)
    const shipped = models.filter((model) => this.shipped.includes(model)).length
    this.counts = { shipped, own: models.length - shipped, refused: problems.length }
    for (const problem of problems) if (!this.told.has(problem)) this.host.problem(problem)
    this.told = new Set(problems)
    this.looked = this.host.monotonic()
  }
}

async function shippedModels(): Promise<Model[]> {
  const names = (await readdir(MODELS)).filter((name) => name.endsWith('.json')).sort()
  return Promise.all(names.map(async (name) => parseModel(name, await readFile(join(MODELS, name)))))
}
