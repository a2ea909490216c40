/** The few parts of Markdown that the repository's rules look at. */

export interface Fence {
  language: string
  text: string
  /** Line of the opening fence, from 1. */
  line: number
}

export function fences(markdown: string): Fence[] {
  const found: Fence[] = []
  const lines = markdown.split('\n')
  for (let i = 0; i < lines.length; i++) {
    const open = /^(\s*)```(\S*)/.exec(lines[i])
    if (open === null) continue
    const line = i + 1
    const body: string[] = []
    while (++i < lines.length && !lines[i].startsWith(`${open[1]}\`\`\``)) body.push(lines[i].slice(open[1].length))
    found.push({ language: open[2], text: `${body.join('\n')}\n`, line })
  }
  return found
}

/** Text of the section under `## heading`, up to the next one of that level. */
export function section(markdown: string, heading: string): string | undefined {
  return markdown.split(/^(?=## )/m).find((part) => part.startsWith(`## ${heading}\n`))
}

export function headings(markdown: string): string[] {
  return [...markdown.replace(/```[\s\S]*?```/g, '').matchAll(/^## (.+)$/gm)].map((match) => match[1])
}

/** Cells of the rows of the first table, its head left out. */
export function tableRows(markdown: string): string[][] {
  const lines = markdown.split('\n')
  const first = lines.findIndex((line) => line.startsWith('|'))
  if (first === -1) return []
  const rows: string[][] = []
  for (let i = first + 2; i < lines.length && lines[i].startsWith('|'); i++) {
    rows.push(
      lines[i]
        .slice(1, lines[i].lastIndexOf('|'))
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim()),
    )
  }
  return rows
}

/** Targets of links to files of the repository. */
export function localLinks(markdown: string): string[] {
  return [...markdown.replace(/```[\s\S]*?```/g, '').matchAll(/\]\(([^)\s]+)\)/g)]
    .map((match) => match[1])
    .filter((target) => !/^[a-z]+:/.test(target) && !target.startsWith('#'))
    .map((target) => target.split('#', 1)[0])
}
