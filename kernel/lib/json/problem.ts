/** What `JSON.parse` says of a text, with the place and without what it quotes of the text: that may be a secret, and long. */
export function jsonProblem({ message }: Error): string {
  return message.replace(/, ".*"? ?is not valid JSON$|, \.\.\..* is not valid JSON$/s, '')
}
