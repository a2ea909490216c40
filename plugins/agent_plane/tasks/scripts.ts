/** Words that mix scripts, as UTS 39 resolves them: the script extensions of all characters of a word have one in common, or it is mixed. */

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
  name: string
  extends: RegExp
  is: RegExp
  systems: readonly string[]
}

let known: Script[] | undefined

/** Made when it is needed: there are some 170. */
function scripts(): Script[] {
  if (known !== undefined) return known
  const names = new Intl.DisplayNames('en', { type: 'script' })
  known = CODES.flatMap((code) => {
    try {
      const script = { name: names.of(code) ?? code, extends: new RegExp(`\\p{scx=${code}}`, 'u'), is: new RegExp(`\\p{sc=${code}}`, 'u') }
      return [{ ...script, systems: [code, ...(SYSTEMS[code] ?? [])] }]
    } catch {
      return []
    }
  })
  return known
}

/** Codes of scripts and systems that a character may belong to; empty = all of them. */
export function systemsOf(character: string): string[] {
  return scripts().flatMap((script) => (script.extends.test(character) ? script.systems : []))
}

/** @returns each word once, with the names of its scripts. */
export function mixedWords(text: string): { word: string; scripts: string[] }[] {
  const found = new Map<string, string[]>()
  for (const [word] of ASCII.test(text) ? [] : text.matchAll(WORD)) {
    if (ASCII.test(word) || found.has(word)) continue
    let common: string[] | undefined
    for (const character of new Set(word)) {
      const of = systemsOf(character)
      if (of.length > 0) common = common === undefined ? of : common.filter((one) => of.includes(one))
    }
    if (common?.length !== 0) continue
    const used = scripts().filter(({ is }) => is.test(word))
    found.set(word, used.map(({ name }) => name).sort())
  }
  return [...found].map(([word, used]) => ({ word, scripts: used }))
}
