"""What the completion scripts do; ``@NAME@`` is filled in by ``kleader.cli.shells``.

Each looks first for the ``--`` after which somebody else's command line begins, and hands that over to the shell.
"""

from __future__ import annotations

BASH = r"""# bash completion for kleader, made by `kleader completion bash`
# The words as they were typed: bash parts them at the characters of COMP_WORDBREAKS, = and : among them.
_kleader_words() {
  local i glued='' piece
  typed=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    piece=${COMP_WORDS[i]}
    if ((i > 1)) && [[ $glued || $piece == [=:] ]]; then
      typed[${#typed[@]} - 1]+=$piece
    else
      typed[${#typed[@]}]=$piece
    fi
    if [[ $piece == [=:] ]]; then glued=1; else glued=''; fi
  done
}

_kleader_offer() {
  local head=${current%"$piece"} each
  while IFS= read -r each; do
    [[ $each && $each == "$value"* ]] || continue
    each=${current%"$value"}$each
    each=${each#"$head"}
    [[ $quote ]] || printf -v each %q "$each"
    COMPREPLY[${#COMPREPLY[@]}]=$each
  done
}

_kleader() {
  local typed piece quote='' current value option='' command='' i each options='' words='' asked='' files='' road=()
  COMPREPLY=()
  _kleader_words
  piece=${COMP_WORDS[COMP_CWORD]}
  [[ $piece == [=:] ]] && piece=''
  current=${typed[${#typed[@]} - 1]}
  value=$current
  for ((i = 1; i < ${#typed[@]} - 1; i++)); do
    each=${typed[i]}
    if [[ ! $command ]]; then
      [[ $each == -* ]] || command=$each
    elif [[ $each == -- ]]; then
      case $command in
        @RUNNERS@) ;;
        *) return ;;
      esac
      ((i += COMP_CWORD + 1 - ${#typed[@]}))
      if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
      elif ((i + 1 == COMP_CWORD)) && [[ $current != */* ]]; then
        COMPREPLY=($(compgen -c -- "$current"))
      else
        compopt -o default 2>/dev/null
      fi
      return
    else
      case $each in
        --kubeconfig=* | --context=* | --cluster=* | --user=* | --server=* | --master=* | --as=* | --namespace=*)
          road[${#road[@]}]=$each ;;
        --kubeconfig | --context | --cluster | --user | --server | --master | --as | --namespace | -n | -s)
          ((i + 2 < ${#typed[@]})) && road=(${road[@]+"${road[@]}"} "$each" "${typed[i + 1]}") ;;
      esac
    fi
  done
  if [[ ! $command ]]; then
    quote=1
    _kleader_offer < <(printf '%s\n' @COMMANDS@ --help --version)
    return
  fi
  case $command in
@OPTIONS@
    *) return ;;
  esac
  if [[ $current == --*=* ]]; then
    option=${current%%=*} value=${current#*=}
  else
    case $command:${typed[${#typed[@]} - 2]} in
      @TAKING@) option=${typed[${#typed[@]} - 2]} ;;
    esac
  fi
  if [[ $option ]]; then
    words='' asked=''
    case $command:$option in
@VALUES@
      *) return ;;
    esac
    if [[ $option == --lock && $value == file:* ]]; then
      quote=1
      _kleader_offer < <(compgen -f -P file: -- "${value#file:}")
      return
    fi
  elif [[ $current == -* ]]; then
    words=$options asked=''
  fi
  if [[ $files ]]; then
    compopt -o filenames 2>/dev/null
    quote=1
    _kleader_offer < <(compgen -f -- "$value")
  elif [[ $asked ]]; then
    _kleader_offer < <("${typed[0]}" completion "$asked" ${road[@]+"${road[@]}"} 2>/dev/null </dev/null)
  else
    quote=1
    _kleader_offer < <(printf '%s\n' $words)
  fi
}

complete -F _kleader kleader
"""

ZSH = r"""#compdef kleader
# zsh completion for kleader, made by `kleader completion zsh`
_kleader_names() {
  local -a road names
  local i
  for ((i = 2; i < CURRENT; i++)); do
    case ${words[i]} in
      --kubeconfig=*|--context=*|--cluster=*|--user=*|--server=*|--master=*|--as=*|--namespace=*)
        road+=("${(Q)words[i]}") ;;
      --kubeconfig|--context|--cluster|--user|--server|--master|--as|--namespace|-n|-s)
        ((i + 1 < CURRENT)) && road+=("${(Q)words[i]}" "${(Q)words[i + 1]}") ;;
    esac
  done
  names=("${(@f)$(${(Q)_kleader_program} completion $1 $road 2>/dev/null </dev/null)}")
  names=(${names:#})
  compadd -a names
}

_kleader() {
  local _kleader_program=$words[1] command=$words[2]
  local -i i
  local -a known  # not commands, which is zsh's own
  if ((CURRENT == 2)); then
    known=(
@COMMANDS@
    )
    _describe command known
    [[ $words[2] == -* ]] && compadd -- --help --version
    return
  fi
  i=$words[(i)--]
  if ((i < CURRENT)); then
    case $command in
      @RUNNERS@) ;;
      *) return 1 ;;
    esac
    shift $i words
    ((CURRENT -= i))
    _normal
    return
  fi
  shift words
  ((CURRENT -= 1))
  case $command in
@OPTIONS@
  esac
}

if [[ $funcstack[1] == _kleader ]]; then
  _kleader "$@"
else
  compdef _kleader kleader
fi
"""

FISH = r"""# fish completion for kleader, made by `kleader completion fish`
function __kleader_first
    test (count (commandline -opc)) -eq 1
end

function __kleader_in
    set -l typed (commandline -opc)
    test "$typed[2]" = "$argv[1]"; and not contains -- -- $typed
end

# After -- of a command that runs another one.
function __kleader_runs
    set -l typed (commandline -opc)
    contains -- "$typed[2]" @RUNNERS@; and contains -- -- $typed
end

function __kleader_rest
    set -l typed (commandline -opc)
    set -l at (contains -i -- -- $typed)
    set -l rest
    test $at -lt (count $typed); and set rest (string escape -- $typed[(math $at + 1)..-1])
    complete -C (string join ' ' -- $rest (commandline -ct))
end

function __kleader_names
    set -l typed (commandline -opc)
    set -l road
    for i in (seq 3 (count $typed))
        switch $typed[$i]
            case '--kubeconfig=*' '--context=*' '--cluster=*' '--user=*' '--server=*' '--master=*'
                set -a road $typed[$i]
            case '--as=*' '--namespace=*'
                set -a road $typed[$i]
            case --kubeconfig --context --cluster --user --server --master --as --namespace -n -s
                test $i -lt (count $typed); and set -a road $typed[$i] $typed[(math $i + 1)]
        end
    end
    $typed[1] completion $argv[1] $road 2>/dev/null </dev/null
end

complete -c kleader -e
complete -c kleader -f
complete -c kleader -n __kleader_first -l help -s h -d 'Show a summary'
complete -c kleader -n __kleader_first -l version -d 'Show the version'
complete -c kleader -n __kleader_runs -a '(__kleader_rest)'
@OPTIONS@
"""
