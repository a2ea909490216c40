/** Words that mix scripts, as UTS 39 resolves them: the script extensions of all characters of a word have one in common, or it is mixed. */

import type { Work } from 'svcdb/lib/event-loop'

/** ISO 15924. Those that this Unicode does not have are left out. */
const CODES = `Adlm Aghb Ahom Arab Armi Armn Avst Bali Bamu Bass Batk Beng Berf Bhks Bopo Brah Brai Bugi Buhd Cakm Cans Cari Cham Cher Chrs Copt Cpmn Cprt Cyrl
Deva Diak Dogr Dsrt Dupl Egyp Elba Elym Ethi Gara Geor Glag Gong Gonm Goth Gran Grek Gujr Gukh Guru Hang Hani Hano Hatr Hebr Hira Hluw Hmng Hmnp Hung Ital
Java Kali Kana Kawi Khar Khmr Khoj Kits Knda Krai Kthi Lana Laoo Latn Lepc Limb Lina Linb Lisu Lyci Lydi Mahj Maka Mand Mani Marc Medf Mend Merc Mero Mlym
Modi Mong Mroo Mtei Mult Mymr Nagm Nand Narb Nbat Newa Nkoo Nshu Ogam Olck Onao Orkh Orya Osge Osma Ougr Palm Pauc Perm Phag Phli Phlp Phnx Plrd Prti Rjng
Rohg Runr Samr Sarb Saur Sgnw Shaw Shrd Sidd Sidt Sind Sinh Sogd Sogo Sora Soyo Sund Sunu Sylo Syrc Tagb Takr Tale Talu Taml Tang Tavt Tayo Telu Tfng Tglg
Thaa Thai Tibt Tirh Tnsa Todr Tols Toto Tutg Ugar Vaii Vith Wara Wcho Xpeo Xsux Yezi Yiii Zanb`.split(/\s/)
/** Letters, marks and digits; what is ignorable does not end a word. */
const WORD = /[\p{L}\p{M}\p{N}\p{Default_Ignorable_Code_Point}]+/gu
const ASCII = /^[\0-\x7f]*$/
/** Writing systems of several scripts. */
const SYSTEMS: Readonly<Record<string, readonly string[]>> = {
  Hani: ['Hanb', 'Jpan', 'Kore'],
  Hira: ['Jpan'],
  Kana: ['Jpan'],
  Hang: ['Kore'],
  Bopo: ['Hanb'],
}

interface Script {
  code: string
  name: string
  extends: RegExp
  is: RegExp
  systems: readonly string[]
}

/** Scripts of the code points of one block. */
interface Block {
  /** Which set of systems each may belong to, by its number. */
  sets: Uint16Array
  /** Which script each is of, from 1; 0 = of none, or of several. */
  own: Uint8Array
}

/** Characters that are looked at without an end. */
const TURN = 512
const NO_SCRIPT = /[\p{sc=Zyyy}\p{sc=Zinh}\p{sc=Zzzz}]+/gu
const BLOCK = 256
const SURROGATES = [0xd800, 0xdfff]
/** Numbers of sets: what belongs to every system, and what belongs to none together. */
const ALL = 0
const NONE = 1

/** What Unicode says of code points, a block at a time, as they are met: there are some 170 scripts to ask about each, and texts are whatever somebody sends. */
class ScriptTable {
  private readonly scripts: Script[]
  /** What belongs to other scripts than its own: some 700 code points. */
  private readonly several: RegExp
  private readonly blocks = new Map<number, Block>()
  private readonly sets: (readonly string[])[] = [[], []]
  private readonly numbers = new Map<string, number>([['', ALL]])
  /** Numbers of what two sets have in common. */
  private readonly common = new Map<number, number>()

  constructor() {
    const names = new Intl.DisplayNames('en', { type: 'script' })
    this.scripts = CODES.flatMap((code) => {
      try {
        const script = { name: names.of(code) ?? code, extends: new RegExp(`\\p{scx=${code}}`, 'u'), is: new RegExp(`\\p{sc=${code}}+`, 'gu') }
        return [{ ...script, code, systems: [code, ...(SYSTEMS[code] ?? [])] }]
      } catch {
        return []
      }
    })
    this.several = new RegExp(`[${this.scripts.map(({ code }) => `[\\p{scx=${code}}--\\p{sc=${code}}]`).join('')}]+`, 'gv')
  }

  /** Codes of the systems that a code point may belong to; empty = all of them. */
  systemsOf(code: number): readonly string[] {
    return this.sets[this.blockOf(code).sets[code % BLOCK]]
  }

  /** Has the patterns compiled, each of which takes its time at its first two uses. */
  *warmed(): Work<void> {
    for (const pattern of [this.several, ...this.scripts.flatMap((script) => [script.is, script.extends])])
      for (let use = 0; use < 2; use++) {
        'a'.search(pattern)
        yield
      }
  }

  /** @returns the names of its scripts where no system has all of its characters. */
  *mixed(word: string): Work<string[] | undefined> {
    let common = ALL
    for (let at = 0; at < word.length && common !== NONE; ) {
      const code = word.codePointAt(at) as number
      at += code > 0xffff ? 2 : 1
      if (!this.blocks.has(Math.floor(code / BLOCK))) yield
      common = this.meet(common, this.blockOf(code).sets[code % BLOCK])
    }
    if (common !== NONE) return undefined
    const used = new Set<number>()
    for (const character of word) {
      const code = character.codePointAt(0) as number
      if (!this.blocks.has(Math.floor(code / BLOCK))) yield
      used.add(this.blockOf(code).own[code % BLOCK])
    }
    used.delete(0)
    return [...used].map((number) => this.scripts[number - 1].name).sort()
  }

  private meet(one: number, other: number): number {
    if (one === other || other === ALL) return one
    if (one === ALL) return other
    const pair = one * 65_536 + other
    let common = this.common.get(pair)
    if (common === undefined) {
      const both = this.sets[one].filter((system) => this.sets[other].includes(system))
      common = both.length === 0 ? NONE : this.numberOf(both)
      this.common.set(pair, common)
    }
    return common
  }

  private numberOf(systems: readonly string[]): number {
    const key = systems.join(' ')
    let number = this.numbers.get(key)
    if (number === undefined) {
      number = this.sets.push(systems) - 1
      this.numbers.set(key, number)
    }
    return number
  }

  private blockOf(code: number): Block {
    const number = Math.floor(code / BLOCK)
    let block = this.blocks.get(number)
    if (block === undefined) {
      block = this.read(number * BLOCK)
      this.blocks.set(number, block)
    }
    return block
  }

  private read(first: number): Block {
    const block: Block = { sets: new Uint16Array(BLOCK), own: new Uint8Array(BLOCK) }
    // A surrogate without its other half has no script.
    if (first >= SURROGATES[0] && first <= SURROGATES[1]) return block
    const text = String.fromCodePoint(...Array.from({ length: BLOCK }, (_, index) => first + index))
    const width = text.length / BLOCK
    const character = (at: number): string => text.slice(at * width, (at + 1) * width)
    const each = (pattern: RegExp, take: (at: number) => void): void => {
      for (const { 0: run, index } of text.matchAll(pattern)) for (let at = index; at < index + run.length; at += width) take(at / width)
    }
    const isKnown = new Uint8Array(BLOCK)
    const take = (pattern: RegExp, own: number): void =>
      each(pattern, (at) => {
        isKnown[at] = 1
        block.own[at] = own
        block.sets[at] = own === 0 ? ALL : this.numberOf(this.scripts[own - 1].systems)
      })
    take(NO_SCRIPT, 0)
    // Most blocks have one script or two: each is asked about for the whole block when one of its characters is found to be of it.
    for (let at = isKnown.indexOf(0); at >= 0; at = isKnown.indexOf(0, at + 1)) {
      const own = this.scripts.findIndex(({ is }) => character(at).search(is) >= 0) + 1
      if (own > 0) take(this.scripts[own - 1].is, own)
    }
    each(this.several, (at) => {
      block.sets[at] = this.numberOf(this.scripts.flatMap(({ extends: pattern, systems }) => (pattern.test(character(at)) ? systems : [])))
    })
    return block
  }
}

let table: ScriptTable | undefined

/** Made when it is needed. */
function known(): ScriptTable {
  table ??= new ScriptTable()
  return table
}

/** Codes of scripts and systems that a character may belong to; empty = all of them. */
export function systemsOf(character: string): readonly string[] {
  return known().systemsOf(character.codePointAt(0) as number)
}

/** @returns each word once, with the names of its scripts. */
export function* mixedWords(text: string): Work<{ word: string; scripts: string[] }[]> {
  if (ASCII.test(text)) return []
  const isNew = table === undefined
  const scriptsOf = known()
  if (isNew) yield* scriptsOf.warmed()
  const found = new Map<string, string[]>()
  let until = 0
  for (const { 0: word, index } of text.matchAll(WORD)) {
    if (index >= until) {
      yield
      until = index + TURN
    }
    if (ASCII.test(word) || found.has(word)) continue
    const scripts = yield* scriptsOf.mixed(word)
    if (scripts !== undefined) found.set(word, scripts)
  }
  return [...found].map(([word, scripts]) => ({ word, scripts }))
}
