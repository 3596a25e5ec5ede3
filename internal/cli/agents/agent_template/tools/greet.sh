#!/bin/sh
# Reads one request on each line and answers each with one line.
while IFS= read -r line; do
  id=$(printf '%s\n' "$line" | sed -n 's/.*"request_id" *: *"\([^"]*\)".*/\1/p')
  name=$(printf '%s\n' "$line" | sed -n 's/.*"parameters" *: *{[^}]*"name" *: *"\([^"]*\)".*/\1/p')
  if [ -z "$name" ]; then
    printf '{"type":"error","request_id":"%s","error_code":"name_missing","message":"There is nobody to greet.","recoverable":false}\n' "$id"
  else
    printf '{"type":"result","request_id":"%s","status":"success","message":"Hello, %s!"}\n' "$id" "$name"
  fi
done
