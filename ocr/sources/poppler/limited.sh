#!/bin/sh
# Runs one of poppler's programs under limits, because PDFs come from strangers.
#
# It is called through a link named like the program (pdftoppm, pdfinfo ...) that
# stands in a folder made for one document. The file `limits` in that folder says
# how much memory, processor time and output the program may use. Complaints are
# kept in the folder: pdf2image throws them away, and they tell of damaged pages.
folder=${0%/*}
program=${0##*/}
unset LD_LIBRARY_PATH # pdf2image points it at the folder
if [ "$1" = -v ]; then
    exec "$program" -v
fi
read -r memory_kb cpu_s output_blocks < "$folder/limits" || exit 125
# A limit that cannot be set is refused because a lower one is in force already.
ulimit -c 0
ulimit -v "$memory_kb" 2> /dev/null
ulimit -t "$cpu_s" 2> /dev/null
ulimit -f "$output_blocks" 2> /dev/null
exec "$program" "$@" 2> "$folder/$program.complaints"
